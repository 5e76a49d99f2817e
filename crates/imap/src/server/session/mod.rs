//! The server's side of one connection as a state machine.
//!
//! The host owns the socket and the store. It loops over [`Session::step`]: reads on request, carries out
//! effects, and passes their results to [`Session::finish`]. After each step it sends the octets of
//! [`Session::take_output`].

mod any_state;
mod authenticated;
mod completion;
mod config;
mod effect;
mod not_authenticated;
mod selected;

pub use config::SessionConfig;
pub use effect::{Effect, Failure, FetchRequest, Needs, Reply};

use super::MessageSource;
use super::command::{Command, CommandError, TaggedCommand, UidRanges};
use super::encode::select::{self, Enabled};
use super::view::{FolderUpdate, Gone, SelectedView};
use crate::token::{FrameReader, LinePoll, Poll, Refusal, Side, Span, Writer};
use completion::Completion;

/// The host's next action. The host sends pending output before any of them.
#[derive(Debug)]
pub enum Step {
    /// Read from the connection and [`Session::feed`].
    Read,
    /// Like `Read`, but also watch the selected mailbox and call [`Session::folder_changed`]: at once for changes
    /// since the last report, later for each further change.
    Idle,
    /// Keep this piece of incoming messages. The APPEND that may follow has the number of octets kept. Only with
    /// [`crate::token::Limits::message_piece`].
    Keep {
        /// The octets.
        bytes: Vec<u8>,
        /// Whether this is the first piece of a command: pieces kept earlier can be discarded.
        is_first: bool,
    },
    /// Carry out the effect, then call [`Session::finish`].
    Run(Effect),
    /// Compress everything that follows with DEFLATE (RFC 4978), in both directions; call
    /// [`Session::compression_started`].
    Compress,
    /// Do the TLS handshake, then call [`Session::tls_started`].
    StartTls,
    /// Close the connection.
    Close,
}

/// The state of the connection (RFC 3501 section 3).
enum Phase {
    NotAuthenticated,
    Authenticated,
    Selected(Box<SelectedView>),
}

/// The meaning of the next bytes from the client.
enum Expecting {
    Command,
    /// The response to a SASL challenge.
    Credentials {
        tag: String,
    },
    /// `DONE`, which ends IDLE.
    Done {
        tag: String,
    },
}

/// The command whose effect the host is carrying out.
struct Running {
    tag: String,
    pending: Pending,
}

enum Pending {
    NotAuthenticated(not_authenticated::Pending),
    Authenticated(authenticated::Pending),
    Selected(selected::Pending),
}

/// The result of dispatching a command.
enum Flow {
    /// The command is complete.
    Complete(Completion),
    /// The host has to carry out an effect; the command completes later.
    Run(Effect, Pending),
    /// The client's next line is not a command.
    Expect(Expecting),
    /// The TLS handshake follows.
    StartTls,
}

/// The server's side of one connection.
pub struct Session {
    config: SessionConfig,
    reader: FrameReader,
    out: Writer,
    phase: Phase,
    expecting: Expecting,
    running: Option<Running>,
    next: Option<Step>,
    tls: bool,
    compressed: bool,
    enabled: Enabled,
    /// The selected mailbox is gone: the session ends once the running command completes.
    gone: Option<Gone>,
    closing: bool,
    failed_logins: u32,
    bad_commands: u32,
}

impl Session {
    /// Creates a session; the greeting is pending output. `tls` is true if the connection began with TLS.
    pub fn new(config: SessionConfig, tls: bool) -> Self {
        let mut session = Self {
            reader: FrameReader::new(Side::Server, config.limits.clone()),
            config,
            out: Writer::new(),
            phase: Phase::NotAuthenticated,
            expecting: Expecting::Command,
            running: None,
            next: None,
            tls,
            compressed: false,
            enabled: Enabled::default(),
            gone: None,
            closing: false,
            failed_logins: 0,
            bad_commands: 0,
        };
        let greeting = format!("{} ready", session.config.product);
        let capabilities = session.capabilities();
        session.out.raw("* OK [CAPABILITY ").raw(&capabilities).raw("] ").text(&greeting).crlf();
        session
    }

    /// Adds bytes from the client; only after [`Step::Read`] or [`Step::Idle`].
    pub fn feed(&mut self, bytes: &[u8]) {
        self.reader.feed(bytes);
    }

    /// Takes the output to send now. If the host implements [`MessageSource::section_span`], the output ends
    /// where the octets of [`Session::take_span`] belong; likewise with [`MessageSource::binary`].
    pub fn take_output(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// Takes the octets of the last written message to send next, after the output already taken. More output follows.
    pub fn take_span(&mut self) -> Option<Span> {
        self.out.take_span()
    }

    /// The selected mailbox, if any.
    pub fn selected(&self) -> Option<&SelectedView> {
        match &self.phase {
            Phase::Selected(view) => Some(view),
            _ => None,
        }
    }

    /// Returns the host's next action.
    pub fn step(&mut self) -> Step {
        loop {
            if self.closing {
                return Step::Close;
            }
            if self.running.is_some() && self.next.is_none() {
                // A host that did not call `finish` must not leave the client waiting for ever.
                self.finish(Err(Failure::Unavailable), None);
            }
            if let Some(step) = self.next.take().or_else(|| self.advance()) {
                return step;
            }
        }
    }

    /// Reads the input; returns a step if the host has to act.
    fn advance(&mut self) -> Option<Step> {
        match std::mem::replace(&mut self.expecting, Expecting::Command) {
            Expecting::Command => match self.reader.poll() {
                Poll::NeedMore => Some(Step::Read),
                Poll::NeedContinuation => {
                    self.out.raw("+ Ready for the literal").crlf();
                    None
                }
                Poll::Refused(refusal) => self.refuse_literal(refusal),
                Poll::Overrun => self.overrun(),
                Poll::Keep { bytes, is_first } => Some(Step::Keep { bytes, is_first }),
                Poll::Frame(frame) => {
                    let parsed = TaggedCommand::parse(frame, &self.config.limits, self.enabled.has_utf8());
                    self.on_parsed(parsed)
                }
            },
            Expecting::Credentials { tag } => match self.reader.poll_line() {
                LinePoll::NeedMore => {
                    self.expecting = Expecting::Credentials { tag };
                    Some(Step::Read)
                }
                LinePoll::Overrun => self.overrun(),
                LinePoll::Line(line) => {
                    let flow = not_authenticated::plain(&String::from_utf8_lossy(&line));
                    self.follow(tag, flow)
                }
            },
            Expecting::Done { tag } => match self.reader.poll_line() {
                LinePoll::NeedMore => {
                    self.expecting = Expecting::Done { tag };
                    Some(Step::Idle)
                }
                LinePoll::Overrun => self.overrun(),
                LinePoll::Line(line) => {
                    let done = line.trim_ascii().eq_ignore_ascii_case(b"DONE");
                    let completion =
                        if done { Completion::ok("IDLE completed") } else { Completion::bad("Expected DONE") };
                    self.follow(tag, Flow::Complete(completion))
                }
            },
        }
    }

    fn on_parsed(&mut self, parsed: Result<TaggedCommand, (Option<String>, CommandError)>) -> Option<Step> {
        match parsed {
            Ok(TaggedCommand { tag, command }) => {
                self.bad_commands = 0;
                let flow = self.run(&tag, command);
                self.follow(tag, flow)
            }
            Err((tag, error)) => {
                let completion = match error {
                    CommandError::Syntax(error) => Completion::bad(error.0),
                    CommandError::Refused { code, text } => Completion::no(code, text),
                    CommandError::Charset { saves } => {
                        if saves {
                            selected::forget_saved(self);
                        }
                        Completion::no("BADCHARSET (US-ASCII UTF-8)", "Unknown charset")
                    }
                };
                // Without a readable tag, the response must be untagged.
                completion.write(&mut self.out, tag.as_deref().unwrap_or("*"));
                self.count_bad(&completion);
                None
            }
        }
    }

    fn count_bad(&mut self, completion: &Completion) {
        self.bad_commands += u32::from(completion.is_bad());
        if self.bad_commands > self.config.max_bad_commands {
            self.bye("Too many bad commands");
        }
    }

    fn run(&mut self, tag: &str, command: Command) -> Flow {
        if command.enables_condstore() && !matches!(self.phase, Phase::NotAuthenticated) {
            self.enable_condstore(&command);
        }
        match any_state::run(self, command) {
            Ok(flow) => flow,
            Err(command) => match self.phase {
                Phase::NotAuthenticated => not_authenticated::run(self, tag, command),
                Phase::Authenticated | Phase::Selected(_) => match authenticated::run(self, tag, command) {
                    Ok(flow) => flow,
                    Err(command) => selected::run(self, command),
                },
            },
        }
    }

    /// Enables CONDSTORE. A client that has already selected a mailbox learns its HIGHESTMODSEQ (RFC 7162 section 3.1.2.1),
    /// unless it leaves the mailbox.
    fn enable_condstore(&mut self, command: &Command) {
        let was_enabled = std::mem::replace(&mut self.enabled.condstore, true);
        if let Phase::Selected(view) = &self.phase
            && !was_enabled
            && !matches!(command, Command::Select { .. })
        {
            select::write_highest_modseq(&mut self.out, view);
        }
    }

    fn follow(&mut self, tag: String, flow: Flow) -> Option<Step> {
        match flow {
            Flow::Complete(completion) => {
                completion.write(&mut self.out, &tag);
                None
            }
            Flow::Run(effect, pending) => {
                self.running = Some(Running { tag, pending });
                Some(Step::Run(effect))
            }
            Flow::Expect(expecting) => {
                self.expecting = expecting;
                None
            }
            Flow::StartTls => {
                Completion::ok("Begin the TLS handshake now").write(&mut self.out, &tag);
                Some(Step::StartTls)
            }
        }
    }

    fn refuse_literal(&mut self, refusal: Refusal) -> Option<Step> {
        let completion = if refusal.message && !matches!(self.phase, Phase::NotAuthenticated) {
            Completion::from(Failure::TooLarge)
        } else {
            Completion::no("LIMIT", "Too many or too large literals")
        };
        completion.write(&mut self.out, refusal.tag.as_deref().unwrap_or("*"));
        None
    }

    fn overrun(&mut self) -> Option<Step> {
        self.bye("Command is too long");
        None
    }

    /// Writes BYE; the next step is [`Step::Close`]. For time-outs and shutdown. A command that waits for the
    /// host gets a NO first: without its tagged response, the client could not know whether it was carried out.
    pub fn bye(&mut self, text: &str) {
        if let Some(Running { tag, .. }) = self.running.take() {
            Completion::refused("Command not completed").write(&mut self.out, &tag);
        }
        self.out.raw("* BYE ").text(text).crlf();
        self.closing = true;
    }

    /// Writes a line to an idling client, so that address translators keep the connection (allowed by RFC 2177).
    pub fn keepalive(&mut self) {
        if matches!(self.expecting, Expecting::Done { .. }) {
            self.out.raw("* OK Still here").crlf();
        }
    }

    /// Marks the connection as protected by TLS. Discards plain text that the client sent after STARTTLS.
    pub fn tls_started(&mut self) {
        self.reader.clear();
        self.tls = true;
    }

    /// Marks the connection as compressed. Discards what the client sent before it saw the response.
    pub fn compression_started(&mut self) {
        self.reader.clear();
        self.compressed = true;
    }

    /// Completes the effect of [`Step::Run`].
    ///
    /// `update` describes changes of the selected mailbox since the last report, with or without this command's
    /// own. Changes are reported as far as the protocol allows now. Pass `None` if there are no changes, or no
    /// mailbox is selected.
    pub fn finish(&mut self, result: Result<Reply, Failure>, update: Option<FolderUpdate>) {
        let Some(Running { tag, pending }) = self.running.take() else { return };
        let may_expunge = !matches!(&pending, Pending::Selected(pending) if pending.keeps_numbers());
        let removes = matches!(&pending, Pending::Selected(pending) if pending.removes());
        let is_delete = matches!(&pending, Pending::Authenticated(authenticated::Pending::Delete)) && result.is_ok();
        // Must precede the report of changes, which would end the session.
        let update = if is_delete { self.leave_when_gone(update) } else { update };
        let completion = match pending {
            Pending::NotAuthenticated(pending) => Some(not_authenticated::finish(self, pending, result)),
            Pending::Authenticated(pending) => authenticated::finish(self, &tag, pending, result),
            Pending::Selected(pending) => Some(selected::finish(self, &tag, pending, result)),
        };
        // Report changes before the tagged response: afterwards, EXPUNGE may no longer be sent.
        if let Err(gone) = self.report_changes(update, may_expunge) {
            // The command may continue with another effect, so BYE waits for its completion.
            self.gone = Some(gone);
        }
        if let Some(mut completion) = completion {
            if let (true, Phase::Selected(view)) = (removes && self.enabled.qresync, &self.phase) {
                completion = completion.with_highest_modseq(view.highest_modseq());
            }
            // Complete the command even if the session ends: a client without a tagged response repeats the
            // command.
            completion.write(&mut self.out, &tag);
            if let Some(gone) = self.gone.take() {
                self.bye(&gone.to_string());
            }
        }
        if self.failed_logins >= self.config.max_login_failures && !self.closing {
            self.bye("Too many failed logins");
        }
    }

    /// Deselects the selected mailbox if the client has just deleted it; that is no reason for BYE.
    fn leave_when_gone(&mut self, update: Option<FolderUpdate>) -> Option<FolderUpdate> {
        if update == Some(FolderUpdate::Gone) {
            self.phase = Phase::Authenticated;
            return None;
        }
        update
    }

    /// Writes one message of a FETCH, between [`Effect::Fetch`] and [`Session::finish`].
    pub fn write_message(&mut self, message: &dyn MessageSource) {
        if let (Phase::Selected(view), Some(Running { pending: Pending::Selected(pending), .. })) =
            (&mut self.phase, &mut self.running)
        {
            pending.write_message(&mut self.out, view, message, self.enabled);
        }
    }

    /// Writes the removed messages of a FETCH with VANISHED, after [`Effect::Fetch`] and before the first message.
    pub fn write_vanished(&mut self, uids: &UidRanges) {
        if let (Phase::Selected(view), Some(Running { pending: Pending::Selected(_), .. })) =
            (&self.phase, &self.running)
        {
            select::write_vanished_earlier(&mut self.out, &view.absent(uids));
        }
    }

    /// Reports changes of the selected mailbox while the client idles.
    pub fn folder_changed(&mut self, update: FolderUpdate) {
        let idles = matches!(self.expecting, Expecting::Done { .. });
        if let Err(gone) = self.report_changes(Some(update), idles) {
            self.bye(&gone.to_string());
        }
    }

    fn report_changes(&mut self, update: Option<FolderUpdate>, may_expunge: bool) -> Result<(), Gone> {
        let Phase::Selected(view) = &mut self.phase else { return Ok(()) };
        select::write_changes(&mut self.out, &view.sync(update, may_expunge)?, self.enabled);
        Ok(())
    }
}
