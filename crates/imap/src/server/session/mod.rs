//! A connection's life: which command is allowed when, and what it leads to.
//!
//! The host owns the socket and the store. It loops over [`Session::step`]: reads when told to,
//! carries out effects and gives their result to [`Session::finish`], and sends what
//! [`Session::take_output`] gives whenever a step was taken.

mod any_state;
mod authenticated;
mod completion;
mod config;
mod effect;
mod not_authenticated;
mod selected;

pub use config::SessionConfig;
pub use effect::{Effect, Failure, FetchRequest, Needs, Reply};

use std::ops::Range;

use super::MessageSource;
use super::command::{Command, CommandError, TaggedCommand};
use super::encode::select;
use super::view::{FolderUpdate, Gone, SelectedView};
use crate::token::{FrameReader, LinePoll, Poll, Refusal, Side, Writer};
use completion::Completion;

/// What the host does next; whatever it is, it sends the output first.
#[derive(Debug)]
pub enum Step {
    /// Read from the connection and [`Session::feed`].
    Read,
    /// As `Read`, but also watch the selected mailbox and call [`Session::folder_changed`], at once
    /// for what changed since the last news.
    Idle,
    /// Keep this piece of a message that is coming, for the APPEND that may follow and says how many octets were kept for
    /// it. Only with [`crate::token::Limits::message_piece`].
    Keep {
        /// The octets.
        octets: Vec<u8>,
        /// Whether a message begins: what was kept of another one will not be asked for.
        is_first: bool,
    },
    /// Carry this out, then [`Session::finish`].
    Run(Effect),
    /// Do the TLS handshake, then [`Session::tls_started`].
    StartTls,
    /// Close the connection.
    Close,
}

/// Who the client is, as far as we know.
enum Phase {
    NotAuthenticated,
    Authenticated,
    Selected(Box<SelectedView>),
}

/// What the next bytes from the client are.
enum Expecting {
    Command,
    /// The answer to a SASL challenge.
    Credentials {
        tag: String,
    },
    /// The end of IDLE.
    Done {
        tag: String,
    },
}

/// The command whose effect the host carries out now.
struct Running {
    tag: String,
    pending: Pending,
}

enum Pending {
    NotAuthenticated(not_authenticated::Pending),
    Authenticated(authenticated::Pending),
    Selected(selected::Pending),
}

/// What a command leads to.
enum Flow {
    /// Its completion, nothing else being needed.
    Complete(Completion),
    /// Work for the host; the command is completed later.
    Run(Effect, Pending),
    /// The client speaks next, and not with a command.
    Expect(Expecting),
    /// The TLS handshake.
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
    /// The selected mailbox is gone: the session ends with the command that runs.
    gone: Option<Gone>,
    closing: bool,
    failed_logins: u32,
    bad_commands: u32,
}

impl Session {
    /// A fresh connection; the greeting waits in the output. `tls` is true when it began with TLS.
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

    /// Adds bytes from the client. To be called after a step said `Read` or `Idle`.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.reader.feed(bytes);
    }

    /// What must be sent now; it is thereby taken out. For a host that answers [`MessageSource::section_span`], it ends
    /// where octets follow that [`Session::take_span`] names.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// Which octets of the message that was last written must be sent now, after the output that was taken; each of
    /// them through [`crate::token::without_nul`]. There is more output behind them.
    pub fn take_span(&mut self) -> Option<Range<u64>> {
        self.out.take_span()
    }

    /// Bytes that wait to be sent; in a long FETCH, a host sends when there are many.
    pub fn output_len(&self) -> usize {
        self.out.len()
    }

    /// The mailbox that is selected.
    pub fn selected(&self) -> Option<&SelectedView> {
        match &self.phase {
            Phase::Selected(view) => Some(view),
            _ => None,
        }
    }

    /// Takes the next step.
    pub fn step(&mut self) -> Step {
        loop {
            if self.closing {
                return Step::Close;
            }
            if self.running.is_some() && self.next.is_none() {
                // The host forgot to finish; the client must not wait for ever.
                self.finish(Err(Failure::Unavailable), None);
            }
            if let Some(step) = self.next.take().or_else(|| self.advance()) {
                return step;
            }
        }
    }

    /// Reads what is there; a step when the host has to do something.
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
                Poll::Keep { octets, is_first } => Some(Step::Keep { octets, is_first }),
                Poll::Frame(frame) => {
                    let parsed = TaggedCommand::parse(frame, &self.config.limits);
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
                };
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
            Completion::no("LIMIT", "Literal is too large")
        };
        completion.write(&mut self.out, refusal.tag.as_deref().unwrap_or("*"));
        None
    }

    fn overrun(&mut self) -> Option<Step> {
        self.bye("Command is too long");
        None
    }

    /// Says goodbye; the next step is `Close`. For time-outs and shutdown. A command that waits for the host is refused
    /// first: without its tagged line, the client could not tell whether it was carried out.
    pub fn bye(&mut self, text: &str) {
        if let Some(Running { tag, .. }) = self.running.take() {
            Completion::refused("Not carried out").write(&mut self.out, &tag);
        }
        self.out.raw("* BYE ").text(text).crlf();
        self.closing = true;
    }

    /// Tells a client that idles that the connection is alive (RFC 2177 leaves this to servers;
    /// it keeps address translators from forgetting the connection).
    pub fn keepalive(&mut self) {
        if matches!(self.expecting, Expecting::Done { .. }) {
            self.out.raw("* OK Still here").crlf();
        }
    }

    /// The handshake is done. What the client sent in plain text after STARTTLS is forgotten.
    pub fn tls_started(&mut self) {
        self.reader.clear();
        self.tls = true;
    }

    /// The result of the effect that [`Step::Run`] gave.
    ///
    /// `update` is what changed in the selected mailbox since the last news, this command's own
    /// changes included or not; the client is told as far as it may be told now. Without news,
    /// or without a selected mailbox, it is None.
    pub fn finish(&mut self, result: Result<Reply, Failure>, update: Option<FolderUpdate>) {
        let Some(Running { tag, pending }) = self.running.take() else { return };
        let may_expunge = !matches!(&pending, Pending::Selected(pending) if pending.keeps_numbers());
        let is_delete = matches!(&pending, Pending::Authenticated(authenticated::Pending::Delete)) && result.is_ok();
        let update = if is_delete { self.leave_when_gone(update) } else { update };
        let completion = match pending {
            Pending::NotAuthenticated(pending) => Some(not_authenticated::finish(self, pending, result)),
            Pending::Authenticated(pending) => authenticated::finish(self, &tag, pending, result),
            Pending::Selected(pending) => Some(selected::finish(self, &tag, pending, result)),
        };
        if let Err(gone) = self.tell_changes(update, may_expunge) {
            self.gone = Some(gone);
        }
        if let Some(completion) = completion {
            // Send the tagged line even when the session ends: a client that does not see it repeats the command.
            completion.write(&mut self.out, &tag);
            if let Some(gone) = self.gone.take() {
                self.bye(&gone.to_string());
            }
        }
        if self.failed_logins >= self.config.max_login_failures && !self.closing {
            self.bye("Too many failed log-ins");
        }
    }

    /// A client that deletes the mailbox that it has selected has none selected then.
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
            pending.write_message(&mut self.out, view, message);
        }
    }

    /// News of the selected mailbox while the client idles.
    pub fn folder_changed(&mut self, update: FolderUpdate) {
        let idles = matches!(self.expecting, Expecting::Done { .. });
        if let Err(gone) = self.tell_changes(Some(update), idles) {
            self.bye(&gone.to_string());
        }
    }

    fn tell_changes(&mut self, update: Option<FolderUpdate>, may_expunge: bool) -> Result<(), Gone> {
        let Phase::Selected(view) = &mut self.phase else { return Ok(()) };
        for change in &view.sync(update, may_expunge)? {
            select::write_untagged(&mut self.out, change);
        }
        Ok(())
    }
}
