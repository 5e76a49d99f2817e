//! The SMTP client against hostile servers.

use mailapi_smtp::client::{
    Cause, Client, ClientConfig, ClientStep, End, MessageFacts, Outcome, RecipientOutcome, TlsPolicy, TransactionStep,
};
use mailapi_smtp::server::{Answer, Config, Question, Role, Session, Step};
use mailapi_smtp::{Credentials, Envelope, Notify, Password, RcptTo, Ret};

use crate::script::Script;

/// Transactions over one connection.
const MAX_TRANSACTIONS: usize = 3;
/// The message, which needs dots doubled and line ends corrected.
const MESSAGE: &[u8] = b"Subject: a\nFrom: b@c\r\n\r\n.\r\nx\r.y\r\n\xfc";
const MESSAGE_ON_ARRIVAL: &[u8] = b"Subject: a\r\nFrom: b@c\r\n\r\n.\r\nx\r\n.y\r\n\xfc\r\n";

/// What a client did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Record {
    /// What it wrote; a handshake is an entry without octets.
    written: Vec<Vec<u8>>,
    outcomes: Vec<Outcome>,
    /// Why no transaction could begin.
    failure: Option<String>,
}

/// Checks every rule for one input.
pub(crate) fn check(input: &[u8]) {
    let (script, bytes) = Script::split(input);
    let record = Conversation::run(script, bytes, Cut::Lines);
    // A reply that comes before its command ends the connection, so the pieces do not join lines here.
    assert_eq!(Conversation::run(script, bytes, Cut::Octets), record);
    assert_eq!(Conversation::run(script, bytes, Cut::Script), record);
    Conversation::run(script, bytes, Cut::None);
}

/// Where the server's octets are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    None,
    Lines,
    Octets,
    /// After each line, and as the script says.
    Script,
}

struct Conversation<'a> {
    script: Script<'a>,
    bytes: &'a [u8],
    cut: Cut,
    pieces: usize,
    record: Record,
    /// Our own server reads what the client writes, and accepts everything.
    reader: Session,
    /// What it received.
    messages: Vec<(Envelope, Vec<u8>)>,
}

impl<'a> Conversation<'a> {
    fn run(script: Script<'a>, bytes: &'a [u8], cut: Cut) -> Record {
        let mut conversation = Self {
            script,
            bytes,
            cut,
            pieces: 0,
            record: Record::default(),
            reader: fresh_reader(script),
            messages: Vec::new(),
        };
        conversation.connect();
        conversation.record
    }

    /// Returns the next octets of the server; `None` after the last ones.
    fn read(&mut self) -> Option<&'a [u8]> {
        let line = || self.bytes.iter().position(|&byte| byte == b'\n').map_or(self.bytes.len(), |end| end + 1);
        let length = match self.cut {
            Cut::None => self.bytes.len(),
            Cut::Lines => line(),
            Cut::Octets => 1,
            Cut::Script => self.script.piece(self.pieces).min(line()),
        };
        self.pieces += 1;
        let (piece, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        (!piece.is_empty()).then_some(piece)
    }

    fn write(&mut self, bytes: Vec<u8>) {
        // Of a piece between CR and LF nothing is left: both are written as one line end with the CR.
        if bytes.is_empty() {
            return;
        }
        self.reader.push(&bytes);
        self.process();
        self.record.written.push(bytes);
    }

    fn process(&mut self) {
        loop {
            match self.reader.step() {
                Step::NeedMore | Step::Close | Step::StartTls => break,
                // A hostile server can make the client send a command too early, but no line that is no command.
                Step::Reply(reply) => assert!(!matches!(reply.code, 500..=502 | 504 | 553 | 555), "{reply}"),
                Step::Ask(question) => {
                    if let Question::Message(message) = question {
                        self.messages.push((message.envelope, message.data));
                    }
                    self.reader.answer(Answer::Accept);
                }
                Step::Keep(_) => unreachable!("messages come as a whole"),
            }
        }
    }

    fn connect(&mut self) {
        let (policy, has_password) = (policy(self.script), self.script.choice(1) & 1 != 0);
        let auth_without_tls = self.script.choice(1) & 2 != 0;
        let credentials = Credentials { username: "ann".to_owned(), password: Password::new("sec\r\nret") };
        let mut client = Client::new(ClientConfig {
            tls: policy,
            credentials: has_password.then_some(credentials),
            auth_without_tls,
            max_commands_in_flight: 1 + usize::from(self.script.choice(2)),
            ..ClientConfig::new("client.example")
        });
        let mut handshakes = 0;
        loop {
            match client.step() {
                Ok(ClientStep::Write(bytes)) => {
                    let is_encrypted = client.is_encrypted();
                    let is_password = bytes.starts_with(b"AUTH ");
                    assert!(!is_password || (has_password && (is_encrypted || auth_without_tls)));
                    self.write(bytes);
                }
                Ok(ClientStep::Read) => match self.read() {
                    Some(piece) => client.push(piece),
                    None => {
                        self.record.failure = Some(client.abandon(Cause::Closed).to_string());
                        assert!(client.step().is_err(), "an abandoned connection stays closed");
                        return;
                    }
                },
                Ok(ClientStep::StartTls) => {
                    handshakes += 1;
                    assert!(handshakes == 1 && policy != TlsPolicy::Never);
                    client.tls_established();
                    self.reader.tls_established();
                    self.record.written.push(Vec::new());
                }
                Ok(ClientStep::Ready) => break,
                Err(failure) => {
                    assert_eq!(client.step(), Err(failure.clone()), "a failure is final");
                    assert!(!client.is_ready());
                    self.record.failure = Some(failure.to_string());
                    return;
                }
            }
        }
        let needs_tls = matches!(policy, TlsPolicy::Required | TlsPolicy::Implicit);
        assert!(!needs_tls || client.is_encrypted(), "no mail in clear text");
        let is_ready = (0..MAX_TRANSACTIONS).all(|number| self.transact(&mut client, number));
        if is_ready {
            assert_eq!(client.quit(), b"QUIT\r\n");
        }
        assert!(!is_ready || !client.is_ready(), "nothing follows QUIT");
    }

    /// Sends a message. Returns whether the connection can send another one.
    fn transact(&mut self, client: &mut Client, number: usize) -> bool {
        let envelope = envelope(self.script, number);
        let mut transaction = client.transaction(&envelope, MessageFacts::of(MESSAGE));
        let (mut wrote_end, mut given, mut is_abandoned) = (false, 0, false);
        let received = self.messages.len();
        // The other server may have refused DATA, for which this one waits for the message.
        self.reader = fresh_reader(self.script);
        self.reader.push(b"EHLO client.example\r\n");
        if self.script.choice(1) & 1 != 0 {
            self.reader.push(b"AUTH PLAIN AGEAYg==\r\n");
        }
        self.process();
        let outcome = loop {
            match transaction.step() {
                TransactionStep::Write(bytes) => {
                    assert!(!wrote_end, "nothing follows the end of a message");
                    self.write(bytes);
                }
                TransactionStep::WriteEnd(bytes) => {
                    assert!(!wrote_end && bytes.ends_with(b".\r\n"));
                    wrote_end = true;
                    self.write(bytes);
                }
                TransactionStep::Read => match self.read() {
                    Some(piece) => transaction.push(piece),
                    None => {
                        is_abandoned = true;
                        break transaction.abandon(Cause::Closed);
                    }
                },
                TransactionStep::Message => {
                    let piece = &MESSAGE[given..MESSAGE.len().min(given + self.script.piece(number))];
                    given += piece.len();
                    transaction.give(piece, given == MESSAGE.len());
                }
                TransactionStep::Done => break transaction.finish(),
            }
        };
        check_outcome(&envelope, &outcome, wrote_end);
        assert_eq!(self.messages.len() - received, usize::from(wrote_end), "one message for each final dot");
        if let Some((arrived, data)) = self.messages.get(received) {
            assert_eq!(data, MESSAGE_ON_ARRIVAL);
            assert_eq!(arrived.mail.reverse_path, envelope.mail.reverse_path);
            let sent =
                |recipient: &RcptTo| envelope.recipients.iter().any(|r| r.forward_path == recipient.forward_path);
            assert!(arrived.recipients.iter().all(sent));
        }
        let is_lost = matches!(&outcome.end, End::Failed(_) | End::OutcomeUnknown(_));
        assert!(!(is_lost && client.is_ready()), "a lost connection is not used again");
        assert!(!(is_abandoned && client.is_ready()));
        self.record.outcomes.push(outcome);
        client.is_ready()
    }
}

fn check_outcome(envelope: &Envelope, outcome: &Outcome, wrote_end: bool) {
    assert_eq!(outcome.rcpt_replies.len(), envelope.recipients.len());
    match &outcome.end {
        End::Accepted(reply) => assert!(reply.is_positive() && wrote_end, "accepted without its end"),
        End::Failed(_) => assert!(!wrote_end, "the server may have the message: a retry could duplicate it"),
        End::OutcomeUnknown(_) => assert!(wrote_end, "the server cannot have the message"),
        End::Refused { reply, .. } => assert!(!reply.is_positive(), "{reply}"),
        End::NoRecipients => assert!(!wrote_end),
    }
    for (recipient, reply) in outcome.recipient_outcomes().zip(&outcome.rcpt_replies) {
        let is_positive = reply.as_ref().is_some_and(|reply| reply.is_positive());
        match recipient {
            RecipientOutcome::Accepted(_) => assert!(is_positive, "accepted for a recipient without a positive reply"),
            RecipientOutcome::Refused(reply) => assert!(!reply.is_positive()),
            RecipientOutcome::Failed(_) | RecipientOutcome::Unknown(_) => {}
        }
    }
}

fn policy(script: Script<'_>) -> TlsPolicy {
    match script.choice(0) & 3 {
        0 => TlsPolicy::WhenOffered,
        1 => TlsPolicy::Never,
        2 => TlsPolicy::Required,
        _ => TlsPolicy::Implicit,
    }
}

fn fresh_reader(script: Script<'_>) -> Session {
    // With a password the client must log in before it sends mail.
    let has_password = script.choice(1) & 1 != 0;
    let role = if has_password { Role::Submission { auth_without_tls: true } } else { Role::Inbound };
    Session::new(Config { tls_available: true, ..Config::new("mx.example", role) })
}

/// An envelope; some of its values would end a line if they were written.
fn envelope(script: Script<'_>, number: usize) -> Envelope {
    let choice = |at: usize| script.choice(3 + number * 3 + at);
    let sender = match choice(0) {
        13 => "a@b> SIZE=1",
        14 => "é@b.example",
        15 => "a@b\r\nRSET",
        number if number & 1 == 0 => "a@b.example",
        _ => "",
    };
    let recipients: &[&str] = match choice(1) {
        12 => &["c@d.example\r\nDATA", "e@f.example"],
        13 => &["<c@d.example>"],
        14 => &[],
        15 => &["\"x y\"@d.example", "é@f.example"],
        number if number & 1 == 0 => &["c@d.example", "e@f.example", "g@h.example"],
        _ => &["postmaster"],
    };
    let mut envelope = Envelope::new(sender, recipients.iter().copied());
    envelope.mail.smtputf8 = choice(2) & 1 != 0;
    if choice(2) & 2 != 0 {
        envelope.mail.ret = Some(Ret::Headers);
        envelope.mail.envid = Some("a b=+".to_owned());
        for recipient in &mut envelope.recipients {
            recipient.notify = Some(Notify::NEVER);
            recipient.orcpt = Some(if choice(2) & 4 != 0 { "rfc822;a+40b" } else { "rfc822;a\r\nRSET" }.to_owned());
        }
    }
    envelope
}
