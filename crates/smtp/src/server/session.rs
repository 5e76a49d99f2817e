//! State of a session, and the effect of each command.

use std::cell::Cell;
use std::fmt;

use super::auth::{Exchange, Progress};
use super::budget::MessageBudget;
use super::chunks::{Chunk, ChunkReader};
use super::command::{self, Command};
use super::config::{Config, Role};
use super::data::DataReader;
use super::envelope_room::{EnvelopeFull, EnvelopeRoom};
use super::input::{BadLine, Input};
use super::text::{Received, Refusal};
use super::{Answer, Message, Question, Step, parameters};
use crate::envelope::{Envelope, RcptTo};
use crate::reply::Reply;
use crate::secret::Password;

/// One client connection, starting with the greeting.
pub struct Session {
    config: Config,
    input: Input,
    phase: Phase,
    /// The question that the host has not answered yet.
    open: Option<Open>,
    /// The reply to the question answered last.
    answered: Option<Reply>,
    client: Option<Client>,
    tls: bool,
    authenticated: bool,
    transaction: Option<Envelope>,
    envelope_room: EnvelopeRoom,
    /// The chunks received so far, between two of them.
    chunks: Option<ChunkReader>,
    /// The last MAIL or chunk was refused, so RCPT, DATA and BDAT pipelined after it do not count as bad commands.
    mail_refused: bool,
    errors: u32,
    refused_recipients: u32,
    idle_commands: u32,
}

enum Phase {
    Command,
    Auth(Exchange),
    Data(DataReader),
    Chunk(ChunkReader),
    /// The bytes of a refused chunk are skipped (RFC 3030 section 2). The reply follows.
    Skip {
        left: u64,
        reply: Reply,
    },
    /// 220 was sent; the host performs the TLS handshake.
    StartTls,
    Closed,
}

/// The effect of an accepting answer.
enum Open {
    Mail(Envelope),
    Rcpt(RcptTo),
    Authenticate,
    Message,
}

/// The client as introduced by EHLO or HELO.
struct Client {
    name: String,
    extended: bool,
}

impl Session {
    /// Returns a session for a newly accepted connection.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            input: Input::default(),
            phase: Phase::Command,
            open: None,
            answered: None,
            client: None,
            tls: false,
            authenticated: false,
            transaction: None,
            envelope_room: EnvelopeRoom::default(),
            chunks: None,
            mail_refused: false,
            errors: 0,
            refused_recipients: 0,
            idle_commands: 0,
        }
    }

    /// Returns the reply to send before anything is read.
    pub fn greeting(&self) -> Reply {
        Reply::plain(220, format!("{} ESMTP", self.config.hostname))
    }

    /// Adds bytes read from the client, in pieces of any size. The host reads only after [`Step::NeedMore`],
    /// so at most one read of commands is buffered here.
    pub fn push(&mut self, bytes: &[u8]) {
        if !matches!(self.phase, Phase::Closed | Phase::StartTls) {
            self.input.push(bytes);
        }
    }

    /// Returns the next action.
    pub fn step(&mut self) -> Step {
        // The host skipped the question. The client still needs a reply.
        if self.open.is_some() {
            self.answer(Answer::Refuse(local_error()));
        }
        if let Some(reply) = self.answered.take() {
            return Step::Reply(reply);
        }
        match &self.phase {
            Phase::Command => self.command_step(),
            Phase::Auth(_) => self.auth_step(),
            Phase::Data(_) => self.data_step(),
            Phase::Chunk(_) => self.chunk_step(),
            Phase::Skip { .. } => self.skip_step(),
            Phase::StartTls => Step::StartTls,
            Phase::Closed => Step::Close,
        }
    }

    /// Answers the question of the last step. The next step is the reply to the client. Does nothing without
    /// an open question. A refusal with 421 ends the session (RFC 5321 section 3.8).
    pub fn answer(&mut self, answer: Answer) {
        let Some(open) = self.open.take() else {
            return;
        };
        let reply = match answer {
            Answer::Accept => self.accept(open, "Ok".to_owned()),
            Answer::Queued(id) => self.accept(open, format!("Ok: queued as {id}")),
            Answer::Refuse(reply) => match open {
                // A failed login counts as a bad command, which limits password guessing.
                Open::Authenticate => self.bad(reply),
                Open::Rcpt(recipient) => {
                    self.envelope_room.give_back(&recipient);
                    self.refused_recipient(reply)
                }
                Open::Mail(_) | Open::Message => reply,
            },
        };
        if reply.code == 421 {
            self.close();
        }
        self.answered = Some(reply);
    }

    /// Reports that a piece of the current message was lost ([`Step::Keep`]). The client gets a temporary
    /// failure after it has sent the rest.
    pub fn lose(&mut self) {
        match &mut self.phase {
            Phase::Data(reader) => reader.lose(),
            Phase::Chunk(reader) => reader.lose(),
            _ => {}
        }
    }

    /// Returns whether a message is being received, by DATA or in chunks.
    pub fn is_receiving(&self) -> bool {
        self.chunks.is_some() || matches!(self.phase, Phase::Data(_) | Phase::Chunk(_))
    }

    /// Reports that the handshake requested by [`Step::StartTls`], or the one before the greeting with
    /// implicit TLS, is complete. The session restarts and discards everything received in clear text (RFC
    /// 3207 section 4.2).
    pub fn tls_established(&mut self) {
        self.tls = true;
        self.input.clear();
        self.phase = Phase::Command;
        self.client = None;
        self.authenticated = false;
        self.end_transaction();
    }

    /// Returns whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    fn accept(&mut self, open: Open, text: String) -> Reply {
        match open {
            Open::Mail(envelope) => {
                self.transaction = Some(envelope);
                self.envelope_room = EnvelopeRoom::of(self.config.budget.clone());
                self.mail_refused = false;
                Reply::new(250, (2, 1, 0), text)
            }
            Open::Rcpt(recipient) => {
                if let Some(envelope) = &mut self.transaction {
                    envelope.recipients.push(recipient);
                }
                Reply::new(250, (2, 1, 5), text)
            }
            Open::Authenticate => {
                self.authenticated = true;
                Reply::new(235, (2, 7, 0), "Authentication succeeded")
            }
            Open::Message => {
                // A session with many messages must not reach the limits.
                self.errors = 0;
                self.idle_commands = 0;
                Reply::new(250, (2, 0, 0), text)
            }
        }
    }

    fn ask(&mut self, open: Open, question: Question) -> Step {
        self.open = Some(open);
        Step::Ask(question)
    }

    /// Counts a bad command. Ends the session above the limit.
    fn bad(&mut self, reply: Reply) -> Reply {
        self.errors += 1;
        if self.errors <= self.config.max_errors {
            return reply;
        }
        self.close();
        Reply::new(421, (4, 7, 0), "Too many errors")
    }

    /// Counts a refused recipient. Ends the session above the limit.
    fn refused_recipient(&mut self, reply: Reply) -> Reply {
        if !self.counts_refusal(&reply) {
            return reply;
        }
        self.refused_recipients += 1;
        if self.refused_recipients <= self.config.max_refused_recipients {
            return reply;
        }
        self.close();
        Reply::new(421, (4, 7, 0), "Too many refused recipients")
    }

    /// Counts an idle command. Ends the session above the limit.
    fn idle(&mut self, reply: Reply) -> Reply {
        self.idle_commands += 1;
        if self.idle_commands <= self.config.max_idle_commands {
            return reply;
        }
        self.close();
        Reply::new(421, (4, 7, 0), "Too many commands without a message")
    }

    /// Returns whether a refusal counts as probing for addresses. A temporary refusal reveals no address, and
    /// an authenticated client may have an old address list.
    pub fn counts_refusal(&self, reply: &Reply) -> bool {
        reply.is_permanent() && !self.authenticated
    }

    /// Returns the number of counted refusals of recipients.
    pub fn refused_recipients(&self) -> u32 {
        self.refused_recipients
    }

    fn end_transaction(&mut self) {
        (self.transaction, self.chunks) = (None, None);
        self.envelope_room = EnvelopeRoom::default();
    }

    fn close(&mut self) {
        // Pipelined commands after the end of the session are not executed.
        self.input.clear();
        self.end_transaction();
        self.phase = Phase::Closed;
    }

    fn command_step(&mut self) -> Step {
        let (command_limit, auth_limit) = (self.config.max_line_bytes, self.config.max_auth_line_bytes);
        let is_chunk = Cell::new(false);
        // An initial response may be much longer than a command (RFC 4954 section 4).
        let line = self.input.line(|start| {
            is_chunk.set(begins_chunk(start));
            match start.get(..5) {
                Some(verb) if verb.eq_ignore_ascii_case(b"AUTH ") => auth_limit,
                _ => command_limit,
            }
        });
        let Some(line) = line else {
            return Step::NeedMore;
        };
        let line = match line {
            Ok(line) => line,
            Err(_) if is_chunk.get() => return self.unreadable_chunk(),
            Err(bad) => return Step::Reply(self.bad(bad_line(bad))),
        };
        match command::parse(&line) {
            Err(_) if is_chunk.get() => self.unreadable_chunk(),
            command => {
                command.and_then(|command| self.execute(command)).unwrap_or_else(|reply| Step::Reply(self.bad(reply)))
            }
        }
    }

    /// Executes a command. An error is a bad command; a refusal that is not the client's fault is an ordinary
    /// step.
    fn execute(&mut self, command: Command<'_>) -> Result<Step, Reply> {
        let reply = match command {
            Command::Hello { name, extended } => {
                let reply = self.hello(name, extended);
                self.idle(reply)
            }
            Command::Mail(argument) => return self.mail(argument),
            Command::Rcpt(argument) => return self.rcpt(argument),
            Command::Data => return self.data(),
            Command::Bdat(argument) => return Ok(self.bdat(argument)),
            Command::Auth { mechanism, initial } => {
                self.may_authenticate()?;
                return Ok(self.exchange(Exchange::begin(mechanism, initial.as_ref().map(Password::expose))));
            }
            Command::StartTls => self.start_tls()?,
            Command::Rset => {
                self.end_transaction();
                self.idle(Reply::new(250, (2, 0, 0), "Ok"))
            }
            Command::Noop => self.idle(Reply::new(250, (2, 0, 0), "Ok")),
            // VRFY does not reveal whether a mailbox exists (RFC 5321 section 7.3).
            Command::Vrfy => self.idle(Reply::new(252, (2, 1, 5), "Cannot VRFY user, but will attempt delivery")),
            Command::Help => self.idle(Reply::new(214, (2, 0, 0), "See RFC 5321")),
            Command::Quit => {
                self.close();
                Reply::new(221, (2, 0, 0), "Bye")
            }
        };
        Ok(Step::Reply(reply))
    }

    fn hello(&mut self, name: String, extended: bool) -> Reply {
        // EHLO and HELO reset the transaction (RFC 5321 section 4.1.4).
        self.end_transaction();
        self.client = Some(Client { name, extended });
        let mut lines = vec![self.config.hostname.clone()];
        if extended {
            lines.extend(self.extensions());
        }
        Reply::plain(250, lines.join("\n"))
    }

    fn extensions(&self) -> Vec<String> {
        let mut keywords = vec![
            "PIPELINING".to_owned(),
            format!("SIZE {}", self.config.max_message_bytes),
            "8BITMIME".to_owned(),
            "SMTPUTF8".to_owned(),
            "DSN".to_owned(),
            "CHUNKING".to_owned(),
            // RFC 9422 section 4.2.
            format!("LIMITS RCPTMAX={}", self.config.max_recipients),
        ];
        if self.config.tls_available && !self.tls {
            keywords.push("STARTTLS".to_owned());
        }
        if self.auth_offered() {
            keywords.push("AUTH PLAIN LOGIN".to_owned());
        }
        keywords.push("ENHANCEDSTATUSCODES".to_owned());
        keywords
    }

    fn auth_offered(&self) -> bool {
        match self.config.role {
            Role::Inbound => false,
            Role::Submission { auth_without_tls } => auth_without_tls || self.tls,
        }
    }

    fn start_tls(&mut self) -> Result<Reply, Reply> {
        if self.tls {
            return Err(out_of_order("TLS is already active"));
        }
        if !self.config.tls_available {
            return Err(Reply::new(502, (5, 5, 1), "STARTTLS is not offered"));
        }
        // Bytes after STARTTLS in the same packet may be injected and must not be read as encrypted
        // (CVE-2011-0411).
        self.input.clear();
        self.phase = Phase::StartTls;
        Ok(Reply::new(220, (2, 0, 0), "Ready to start TLS"))
    }

    fn may_authenticate(&self) -> Result<(), Reply> {
        if self.config.role == Role::Inbound {
            return Err(Reply::new(502, (5, 5, 1), "AUTH is not offered"));
        }
        if !self.client.as_ref().is_some_and(|client| client.extended) {
            return Err(out_of_order("Send EHLO first"));
        }
        if !self.auth_offered() {
            return Err(Reply::new(538, (5, 7, 11), "Encryption is required for AUTH"));
        }
        // Neither a second AUTH nor one during a transaction is allowed (RFC 4954 section 4).
        if self.authenticated {
            return Err(out_of_order("Already authenticated"));
        }
        if self.transaction.is_some() {
            return Err(out_of_order("No AUTH during a mail transaction"));
        }
        Ok(())
    }

    fn auth_step(&mut self) -> Step {
        let limit = self.config.max_auth_line_bytes;
        let Some(line) = self.input.line(|_| limit) else {
            return Step::NeedMore;
        };
        let Phase::Auth(exchange) = std::mem::replace(&mut self.phase, Phase::Command) else {
            return Step::Reply(local_error());
        };
        match line {
            Ok(line) => self.exchange(exchange.respond(&line)),
            Err(bad) => Step::Reply(self.bad(bad_line(bad))),
        }
    }

    fn exchange(&mut self, progress: Progress) -> Step {
        match progress {
            Progress::Challenge(challenge, exchange) => {
                self.phase = Phase::Auth(exchange);
                Step::Reply(challenge)
            }
            Progress::Complete(credentials) => self.ask(Open::Authenticate, Question::Authenticate(credentials)),
            Progress::Failed(reply) => Step::Reply(self.bad(reply)),
        }
    }

    fn mail(&mut self, argument: &str) -> Result<Step, Reply> {
        // Reset by `accept`. Until then RCPT and DATA are answered as after a refused MAIL.
        self.mail_refused = true;
        if self.client.is_none() {
            return Err(out_of_order("Send EHLO or HELO first"));
        }
        if self.transaction.is_some() {
            return Err(out_of_order("A mail transaction is already open"));
        }
        if self.config.role != Role::Inbound && !self.authenticated {
            return Err(Reply::new(530, (5, 7, 0), "Authentication required"));
        }
        let mail = parameters::mail(argument, self.auth_offered())?;
        let limit = u64::try_from(self.config.max_message_bytes).unwrap_or(u64::MAX);
        if mail.size.is_some_and(|size| size > limit) {
            // Not a bad command: SIZE exists to ask in advance (RFC 1870).
            return Ok(Step::Reply(too_long()));
        }
        let envelope = Envelope { mail: mail.clone(), recipients: Vec::new() };
        Ok(self.ask(Open::Mail(envelope), Question::Mail(mail)))
    }

    fn rcpt(&mut self, argument: &str) -> Result<Step, Reply> {
        let Some(envelope) = &self.transaction else {
            return self.without_mail();
        };
        if self.chunks.is_some() {
            return Err(out_of_order("No RCPT after BDAT"));
        }
        let recipient = parameters::rcpt(argument, envelope.mail.smtputf8)?;
        if envelope.recipients.len() >= self.config.max_recipients {
            return Ok(Step::Reply(too_many_recipients()));
        }
        match self.envelope_room.take(&recipient) {
            Ok(()) => {}
            Err(EnvelopeFull::TooLong) => return Ok(Step::Reply(too_many_recipients())),
            Err(EnvelopeFull::NoRoom) => return Ok(Step::Reply(no_room())),
        }
        Ok(self.ask(Open::Rcpt(recipient.clone()), Question::Rcpt(recipient)))
    }

    /// Refuses RCPT or DATA without MAIL. After a refused MAIL it does not count: a pipelining client has
    /// already sent it.
    fn without_mail(&self) -> Result<Step, Reply> {
        let reply = out_of_order("Send MAIL first");
        match self.mail_refused {
            true => Ok(Step::Reply(reply)),
            false => Err(reply),
        }
    }

    fn data(&mut self) -> Result<Step, Reply> {
        let Some(envelope) = &self.transaction else {
            return self.without_mail();
        };
        if self.chunks.is_some() {
            // RFC 3030 section 2.
            return Err(out_of_order("No DATA after BDAT"));
        }
        if let Some(reply) = self.refusal_of_text(envelope) {
            return Ok(Step::Reply(reply));
        }
        self.phase = Phase::Data(DataReader::new(&self.config));
        let text = "Send the message, end it with <CRLF>.<CRLF>";
        Ok(Step::Reply(Reply::plain(354, text)))
    }

    /// Returns why the text of a message is not accepted, whatever it contains.
    fn refusal_of_text(&self, envelope: &Envelope) -> Option<Reply> {
        if envelope.recipients.is_empty() {
            // A pipelining client sends the text before it learns that every recipient was refused.
            return Some(Reply::new(554, (5, 5, 1), "No valid recipients"));
        }
        // A refusal before the text saves its transfer.
        self.config.budget.as_ref().is_some_and(MessageBudget::is_used_up).then(no_room)
    }

    fn data_step(&mut self) -> Step {
        let Phase::Data(reader) = &mut self.phase else {
            return Step::Reply(local_error());
        };
        let (used, ended) = reader.read(self.input.unread());
        self.input.consume(used);
        if !ended {
            return reader.take_piece().map_or(Step::NeedMore, Step::Keep);
        }
        match std::mem::replace(&mut self.phase, Phase::Command) {
            Phase::Data(reader) => self.received(reader.finish()),
            _ => Step::Reply(local_error()),
        }
    }

    /// Starts a chunk (RFC 3030 section 2).
    fn bdat(&mut self, argument: &str) -> Step {
        let Some(chunk) = Chunk::parse(argument) else {
            return self.unreadable_chunk();
        };
        if let Some(reply) = self.refusal_of_chunk() {
            self.refuse_transaction();
            if !matches!(self.phase, Phase::Closed) {
                self.phase = Phase::Skip { left: chunk.bytes, reply };
                return self.skip_step();
            }
            return Step::Reply(reply);
        }
        let mut reader = self.chunks.take().unwrap_or_else(|| ChunkReader::new(&self.config));
        reader.begin(chunk);
        self.phase = Phase::Chunk(reader);
        self.chunk_step()
    }

    /// Ends the session: the bytes that follow must not be read as commands.
    fn unreadable_chunk(&mut self) -> Step {
        self.close();
        Step::Reply(Reply::new(421, (4, 5, 4), "Syntax: BDAT size [LAST]; closing connection"))
    }

    /// Returns why a chunk is not accepted, whatever it contains.
    fn refusal_of_chunk(&mut self) -> Option<Reply> {
        let Some(envelope) = &self.transaction else {
            let reply = out_of_order("Send MAIL first");
            return Some(if self.mail_refused { reply } else { self.bad(reply) });
        };
        // The first chunk was accepted, and no recipient follows it.
        if self.chunks.is_some() { None } else { self.refusal_of_text(envelope) }
    }

    /// Ends the transaction after a refused chunk. Further chunks in the pipeline do not count as bad commands.
    fn refuse_transaction(&mut self) {
        self.end_transaction();
        self.mail_refused = true;
    }

    fn chunk_step(&mut self) -> Step {
        let Phase::Chunk(reader) = &mut self.phase else {
            return Step::Reply(local_error());
        };
        let used = reader.read(self.input.unread());
        self.input.consume(used);
        let (is_complete, Chunk { bytes, is_last }) = (reader.is_complete(), reader.chunk());
        if !(is_complete && is_last)
            && let Some(piece) = reader.take_piece()
        {
            return Step::Keep(piece);
        }
        if !is_complete {
            return Step::NeedMore;
        }
        let Phase::Chunk(reader) = std::mem::replace(&mut self.phase, Phase::Command) else {
            return Step::Reply(local_error());
        };
        if is_last {
            return self.received(reader.finish());
        }
        if let Some(refusal) = reader.refusal() {
            self.refuse_transaction();
            return Step::Reply(self.refused(refusal));
        }
        let reply = Reply::new(250, (2, 0, 0), format!("Ok: {} octets so far", reader.len()));
        self.chunks = Some(reader);
        Step::Reply(if bytes == 0 { self.idle(reply) } else { reply })
    }

    fn skip_step(&mut self) -> Step {
        let Phase::Skip { left, .. } = &mut self.phase else {
            return Step::Reply(local_error());
        };
        let unread = self.input.unread().len();
        let used = usize::try_from(*left).unwrap_or(usize::MAX).min(unread);
        *left -= used as u64;
        let is_complete = *left == 0;
        self.input.consume(used);
        if !is_complete {
            return Step::NeedMore;
        }
        match std::mem::replace(&mut self.phase, Phase::Command) {
            Phase::Skip { reply, .. } => Step::Reply(reply),
            _ => Step::Reply(local_error()),
        }
    }

    /// Passes a message on. The transaction ends with the text, even if the message is refused.
    fn received(&mut self, received: Received) -> Step {
        let envelope = self.transaction.take().unwrap_or_default();
        match received {
            Received::Message(data, mut room) => {
                self.envelope_room.join(&mut room);
                let protocol = self.protocol(envelope.mail.smtputf8);
                let client_name = self.client.as_ref().map(|client| client.name.clone());
                let message = Message { envelope, data, client_name: client_name.unwrap_or_default(), protocol, room };
                self.ask(Open::Message, Question::Message(message))
            }
            Received::Refused(refusal) => {
                self.end_transaction();
                Step::Reply(self.refused(refusal))
            }
        }
    }

    fn refused(&mut self, refusal: Refusal) -> Reply {
        match refusal {
            Refusal::BareLineEnd => {
                let text = "Bare <CR> or <LF> received; lines must end in <CR><LF>";
                self.bad(Reply::new(550, (5, 6, 0), text))
            }
            Refusal::TooLong => too_long(),
            Refusal::NoRoom => no_room(),
        }
    }

    /// Returns the protocol name (RFC 3848; RFC 6531 section 4.3 for the names with UTF8).
    fn protocol(&self, smtputf8: bool) -> &'static str {
        let extended = self.client.as_ref().is_some_and(|client| client.extended);
        match (extended, smtputf8, self.tls, self.authenticated) {
            (_, true, false, false) => "UTF8SMTP",
            (_, true, true, false) => "UTF8SMTPS",
            (_, true, false, true) => "UTF8SMTPA",
            (_, true, true, true) => "UTF8SMTPSA",
            (true, false, false, false) => "ESMTP",
            (true, false, true, false) => "ESMTPS",
            (true, false, false, true) => "ESMTPA",
            (true, false, true, true) => "ESMTPSA",
            (false, false, _, _) => "SMTP",
        }
    }
}

/// `Debug` hides the unread input, which may contain a password, and the message so far.
impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("tls", &self.tls)
            .field("authenticated", &self.authenticated)
            .field("errors", &self.errors)
            .finish_non_exhaustive()
    }
}

/// Returns whether a line that begins so is a BDAT command, also a wrong one.
fn begins_chunk(start: &[u8]) -> bool {
    let has_verb = start.get(..4).is_some_and(|verb| verb.eq_ignore_ascii_case(b"BDAT"));
    has_verb && !start.get(4).is_some_and(u8::is_ascii_alphabetic)
}

fn out_of_order(text: &str) -> Reply {
    Reply::new(503, (5, 5, 1), text)
}

/// 452 makes the client send the rest in another transaction (RFC 5321 section 4.5.3.1.10).
fn too_many_recipients() -> Reply {
    Reply::new(452, (4, 5, 3), "Too many recipients for one message")
}

fn too_long() -> Reply {
    Reply::new(552, (5, 3, 4), "The message exceeds the maximum size")
}

fn no_room() -> Reply {
    Reply::new(452, (4, 3, 1), "Too many messages in progress, try again later")
}

fn local_error() -> Reply {
    Reply::new(451, (4, 3, 0), "Local error, try again later")
}

fn bad_line(bad: BadLine) -> Reply {
    let text = match bad {
        BadLine::TooLong => "Line too long",
        BadLine::BareLineEnd => "Bare <CR> or <LF> received; lines must end in <CR><LF>",
        BadLine::NotText => "The line contains invalid characters",
    };
    Reply::new(500, (5, 5, 2), text)
}
