//! One message over a ready connection.

use std::collections::VecDeque;
use std::fmt;

use super::body::{BodyWriter, MessageFacts};
use super::commands;
use super::connection::{Client, State};
use super::outcome::{Cause, End, Failure, Outcome, Stage};
use crate::envelope::{BodyType, Envelope};
use crate::reply::{EnhancedCode, Reply};

/// Next action of the host in a transaction.
#[derive(Clone, PartialEq, Eq)]
pub enum TransactionStep {
    /// Write these bytes.
    Write(Vec<u8>),
    /// Write these bytes, which end with the final dot: from now on the server may have the message.
    WriteEnd(Vec<u8>),
    /// Read from the server and pass the bytes to [`Transaction::push`].
    Read,
    /// Pass the next piece of the message to [`Transaction::give`].
    Message,
    /// Call [`Transaction::finish`].
    Done,
}

/// `Debug` hides the bytes: they are private mail.
impl fmt::Debug for TransactionStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(bytes) => write!(formatter, "Write({} bytes)", bytes.len()),
            Self::WriteEnd(bytes) => write!(formatter, "WriteEnd({} bytes)", bytes.len()),
            Self::Read => formatter.write_str("Read"),
            Self::Message => formatter.write_str("Message"),
            Self::Done => formatter.write_str("Done"),
        }
    }
}

/// An active transaction. If it is dropped before its end, the connection is no longer ready.
pub struct Transaction<'a> {
    client: &'a mut Client,
    envelope: &'a Envelope,
    facts: MessageFacts,
    /// The next piece of the message in wire format, and whether it is the last one.
    given: Option<(Vec<u8>, bool)>,
    body: BodyWriter,
    smtputf8: bool,
    /// The next command, as far as the replies so far allow it.
    next: Next,
    /// Commands without a reply, oldest first.
    awaiting: VecDeque<Sent>,
    mail: MailState,
    rcpt_replies: Vec<Option<Reply>>,
    data: DataState,
    end: Option<End>,
    replies_read: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Rset,
    Mail,
    Rcpt(usize),
    Data,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Rset,
    Mail,
    Rcpt(usize),
    Data,
    Message,
}

#[derive(Debug, PartialEq, Eq)]
enum MailState {
    Unanswered,
    Accepted,
    Refused(Reply),
}

#[derive(Debug, PartialEq, Eq)]
enum DataState {
    Unanswered,
    Refused(Reply),
    /// The server replied 354; the message is being sent.
    Sending,
    /// The piece with the final dot was returned to the host: the server may have the message from now on.
    Sent,
}

impl<'a> Transaction<'a> {
    /// Starts a transaction for a message with these facts.
    pub(super) fn begin(client: &'a mut Client, envelope: &'a Envelope, facts: MessageFacts) -> Self {
        let smtputf8 = needs_smtputf8(envelope, &facts);
        let next = if client.needs_reset { Next::Rset } else { Next::Mail };
        let mut transaction = Self {
            envelope,
            facts,
            given: None,
            body: BodyWriter::new(),
            smtputf8,
            next,
            awaiting: VecDeque::new(),
            mail: MailState::Unanswered,
            rcpt_replies: vec![None; envelope.recipients.len()],
            data: DataState::Unanswered,
            end: None,
            replies_read: 0,
            client,
        };
        if let Err(end) = transaction.client.begin_transaction() {
            transaction.end = Some(End::Failed(end));
            return transaction;
        }
        transaction.refuse_what_cannot_be_said();
        if transaction.end.is_none() {
            transaction.client.state = State::Busy;
        }
        transaction
    }

    /// Adds bytes read from the server, in pieces of any size.
    pub fn push(&mut self, bytes: &[u8]) {
        self.client.reader.push(bytes);
    }

    /// Returns the next action.
    pub fn step(&mut self) -> TransactionStep {
        self.read_replies();
        if self.end.is_some() {
            return TransactionStep::Done;
        }
        if let Some(bytes) = self.output() {
            return match self.data {
                DataState::Sent => TransactionStep::WriteEnd(bytes),
                _ => TransactionStep::Write(bytes),
            };
        }
        if self.wants_piece() {
            return TransactionStep::Message;
        }
        if self.awaiting.is_empty() {
            self.conclude();
            return TransactionStep::Done;
        }
        TransactionStep::Read
    }

    /// Returns the number of complete replies. Only a complete reply extends the time-out; single octets do
    /// not.
    #[must_use]
    pub const fn replies_read(&self) -> usize {
        self.replies_read
    }

    fn read_replies(&mut self) {
        while self.end.is_none() {
            match self.client.reader.next() {
                Ok(None) => break,
                Ok(Some(reply)) => {
                    self.replies_read += 1;
                    self.on_reply(reply);
                }
                Err(what) => self.fail(Failure::Protocol(what)),
            }
        }
    }

    /// Adds the next piece of the message, of any length, after [`TransactionStep::Message`]. The server does
    /// not have the message before it has the last piece.
    pub fn give(&mut self, piece: &[u8], is_last: bool) {
        if self.wants_piece() {
            self.given = Some((self.body.write(piece, is_last), is_last));
        }
    }

    fn wants_piece(&self) -> bool {
        self.data == DataState::Sending && self.given.is_none()
    }

    /// Abandons the connection.
    pub fn abandon(mut self, cause: Cause) -> Outcome {
        if self.end.is_none() {
            self.fail(Failure::Lost { stage: self.stage(), cause });
        }
        self.finish()
    }

    /// Returns the stage of the oldest command without a reply.
    fn stage(&self) -> Stage {
        match self.awaiting.front() {
            Some(Sent::Rset) => Stage::Rset,
            Some(Sent::Mail) | None => Stage::Mail,
            Some(Sent::Rcpt(_)) => Stage::Rcpt,
            Some(Sent::Data) => Stage::Data,
            Some(Sent::Message) => Stage::Message,
        }
    }

    /// Abandons the connection after a failed write. `last_words` is the server's last output, which often
    /// contains the reason. Unlike after [`Transaction::step`], unwritten octets do not count as sent.
    pub fn broke_off(mut self, last_words: &[u8], cause: Cause) -> Outcome {
        self.push(last_words);
        self.read_replies();
        // The server still waits for the unwritten octets, even if a reply has ended the transaction.
        if self.client.state == State::Ready {
            self.client.close(Failure::Closed);
        }
        self.abandon(cause)
    }

    /// Returns the outcome. Before [`TransactionStep::Done`] this closes the connection.
    pub fn finish(mut self) -> Outcome {
        if self.end.is_none() {
            self.fail(Failure::Closed);
        }
        let end = self.end.take().unwrap_or(End::Failed(Failure::Closed));
        Outcome { rcpt_replies: std::mem::take(&mut self.rcpt_replies), end }
    }

    /// Refuses locally what must not be sent, with the reply that a server would give.
    fn refuse_what_cannot_be_said(&mut self) {
        if self.smtputf8 && !self.client.capabilities.smtputf8 {
            let text = "The message needs SMTPUTF8, which the next server does not offer";
            return self.refuse_mail(Reply::new(550, (5, 6, 7), text));
        }
        // An unchecked address could inject a parameter or a command.
        let sender = &self.envelope.mail.reverse_path;
        if !sender.is_empty() && !commands::is_address(sender) {
            let text = "Invalid sender address";
            return self.refuse_mail(Reply::new(553, (5, 1, 7), text));
        }
        for (recipient, reply) in self.envelope.recipients.iter().zip(&mut self.rcpt_replies) {
            let address = &recipient.forward_path;
            if address.is_empty() || !commands::is_address(address) {
                let text = "Invalid recipient address";
                *reply = Some(Reply::new(553, (5, 1, 3), text));
            }
        }
        if self.rcpt_replies.iter().all(Option::is_some) {
            self.end = Some(End::NoRecipients);
        }
    }

    fn refuse_mail(&mut self, reply: Reply) {
        self.end = Some(refused(Stage::Mail, reply));
    }

    /// Returns the next bytes to write: a piece of the message, or as many commands as may be unanswered.
    fn output(&mut self) -> Option<Vec<u8>> {
        if self.data == DataState::Sending {
            let (piece, is_last) = self.given.take()?;
            // Set before the host writes: once the dot may have left, a lost connection means an unknown
            // outcome.
            if is_last {
                self.data = DataState::Sent;
            }
            return Some(piece);
        }
        let in_flight = match self.client.capabilities.pipelining {
            true => self.client.config.max_commands_in_flight.max(1),
            false => 1,
        };
        let mut out = Vec::new();
        while self.awaiting.len() < in_flight && self.command(&mut out) {}
        (!out.is_empty()).then_some(out)
    }

    /// Appends the next command. Returns false if none is left or sensible.
    fn command(&mut self, out: &mut Vec<u8>) -> bool {
        // After a refused MAIL, all further commands would be refused too.
        if matches!(self.mail, MailState::Refused(_)) {
            self.next = Next::Nothing;
        }
        match self.next {
            Next::Rset => {
                out.extend_from_slice(b"RSET\r\n");
                self.awaiting.push_back(Sent::Rset);
                self.next = Next::Mail;
            }
            Next::Mail => {
                out.extend_from_slice(self.mail_line().as_bytes());
                self.awaiting.push_back(Sent::Mail);
                self.next = self.rcpt_from(0);
            }
            Next::Rcpt(index) => {
                let recipient = &self.envelope.recipients[index];
                let line = commands::rcpt(recipient, self.smtputf8, self.client.capabilities);
                out.extend_from_slice(line.as_bytes());
                self.awaiting.push_back(Sent::Rcpt(index));
                self.next = self.rcpt_from(index + 1);
            }
            // RCPT may still be unanswered with PIPELINING; DATA is sent unless all recipients are already
            // refused.
            Next::Data if self.may_have_recipient() => {
                out.extend_from_slice(b"DATA\r\n");
                self.awaiting.push_back(Sent::Data);
                self.next = Next::Nothing;
            }
            Next::Data | Next::Nothing => return false,
        }
        true
    }

    fn mail_line(&self) -> String {
        let body = match self.facts.is_eight_bit() {
            true => BodyType::EightBitMime,
            false => BodyType::SevenBit,
        };
        let size = self.facts.len();
        let offered = self.client.capabilities;
        commands::mail(&self.envelope.mail, size, body, self.smtputf8, offered)
    }

    /// Returns the next recipient that was not refused locally, or DATA after the last one.
    fn rcpt_from(&self, index: usize) -> Next {
        let rest = self.rcpt_replies.iter().skip(index);
        match rest.enumerate().find(|(_, reply)| reply.is_none()) {
            Some((offset, _)) => Next::Rcpt(index + offset),
            None => Next::Data,
        }
    }

    fn has_recipient(&self) -> bool {
        let mut replies = self.rcpt_replies.iter().flatten();
        self.mail == MailState::Accepted && replies.any(Reply::is_positive)
    }

    fn may_have_recipient(&self) -> bool {
        let waiting = |sent: &Sent| matches!(sent, Sent::Rcpt(_));
        self.has_recipient() || self.awaiting.iter().any(waiting)
    }

    fn on_reply(&mut self, reply: Reply) {
        let Some(sent) = self.awaiting.pop_front() else {
            return self.on_unasked(reply);
        };
        // For the message itself, 421 is a reply like any other.
        if reply.code == 421 && !matches!(sent, Sent::Message) {
            return self.on_closing(sent, reply);
        }
        // Only DATA has an intermediate reply here.
        if reply.code / 100 == 3 && sent != Sent::Data {
            return self.fail(Failure::Protocol("unexpected intermediate reply"));
        }
        match sent {
            Sent::Rset if reply.is_positive() => self.client.needs_reset = false,
            Sent::Rset => self.fail(Failure::Refused { stage: Stage::Rset, reply }),
            Sent::Mail => self.on_mail_reply(reply),
            // After a refused MAIL, the reply to RCPT is "send MAIL first" and does not concern the
            // recipient.
            Sent::Rcpt(index) if !matches!(self.mail, MailState::Refused(_)) => {
                self.rcpt_replies[index] = Some(too_many_for_now(reply));
            }
            Sent::Rcpt(_) => {}
            Sent::Data => self.on_data_reply(reply),
            Sent::Message => self.on_message_reply(reply),
        }
    }

    fn on_unasked(&mut self, reply: Reply) {
        self.fail(match reply.code {
            421 => Failure::Closing(reply),
            _ => Failure::Protocol("unsolicited reply"),
        });
    }

    /// Records the reply for the recipient that it answers. For all others the connection is closed.
    fn on_closing(&mut self, sent: Sent, reply: Reply) {
        match sent {
            Sent::Rcpt(index) if !matches!(self.mail, MailState::Refused(_)) => {
                self.rcpt_replies[index] = Some(reply.clone());
            }
            _ => {}
        }
        self.fail(Failure::Closing(reply));
    }

    /// Records the reply to MAIL.
    fn on_mail_reply(&mut self, reply: Reply) {
        // Set here and not when MAIL is sent: the reply to RSET precedes this one even if both commands left
        // in one write. A refused MAIL should leave no envelope; RSET makes sure of it.
        self.client.needs_reset = true;
        self.mail = match reply.is_positive() {
            true => MailState::Accepted,
            false => MailState::Refused(reply),
        };
    }

    fn on_data_reply(&mut self, reply: Reply) {
        if reply.code == 354 && self.has_recipient() {
            self.data = DataState::Sending;
            self.awaiting.push_back(Sent::Message);
        } else if reply.code == 354 {
            // RFC 2920 section 3.1 suggests sending a lone dot here. The dot would complete an empty message,
            // and a recipient that the server accepted without reporting it would get it. Closing the
            // connection completes nothing.
            self.conclude();
            self.client.close(Failure::Protocol("354 without an accepted recipient"));
        } else if reply.code / 100 > 3 {
            self.data = DataState::Refused(reply);
        } else {
            self.fail(Failure::Protocol("unexpected reply to DATA"));
        }
    }

    fn on_message_reply(&mut self, reply: Reply) {
        let complete = self.data == DataState::Sent;
        if reply.is_positive() && !complete {
            return self.fail(Failure::Protocol("message accepted before its end"));
        }
        if reply.code == 421 && !complete {
            // The server timed out before the end of the message, so this is not its verdict on the message.
            return self.fail(Failure::Closing(reply));
        }
        // After an accepted message the server has no envelope (RFC 5321 section 4.1.1.4). After a refused
        // one, RSET makes sure of it.
        self.client.needs_reset = !reply.is_positive();
        if complete && reply.code != 421 {
            self.client.state = State::Ready;
        } else {
            // After a refusal in the middle of the message, the server still waits for the message's end.
            self.client.close(Failure::Closing(reply.clone()));
        }
        self.end = Some(match reply.is_positive() {
            true => End::Accepted(reply),
            false => refused(Stage::Message, reply),
        });
    }

    /// Ends a transaction in which all commands were answered and no message was sent.
    fn conclude(&mut self) {
        self.client.state = State::Ready;
        let mail = std::mem::replace(&mut self.mail, MailState::Unanswered);
        let data = std::mem::replace(&mut self.data, DataState::Unanswered);
        self.end = Some(match (mail, data) {
            (MailState::Refused(reply), _) => refused(Stage::Mail, reply),
            (_, DataState::Refused(reply)) if self.rcpt_accepted() => refused(Stage::Data, reply),
            _ => End::NoRecipients,
        });
    }

    fn rcpt_accepted(&self) -> bool {
        self.rcpt_replies.iter().flatten().any(Reply::is_positive)
    }

    fn fail(&mut self, failure: Failure) {
        self.client.close(failure.clone());
        let mail = std::mem::replace(&mut self.mail, MailState::Unanswered);
        self.end = Some(match (&self.data, mail) {
            // After the final dot the server may have accepted the message (RFC 1047).
            (DataState::Sent, _) => End::OutcomeUnknown(failure),
            (_, _) if matches!(failure, Failure::Protocol(_)) => {
                // A reply is missing or surplus, so every recorded reply may belong to another command.
                self.rcpt_replies.fill(None);
                End::Failed(failure)
            }
            // The refusal of the sender is more specific than the failure of the connection.
            (_, MailState::Refused(reply)) => refused(Stage::Mail, reply),
            _ => End::Failed(failure),
        });
    }
}

fn refused(stage: Stage, reply: Reply) -> End {
    End::Refused { stage, reply }
}

/// Returns a reply to RCPT, in which too many recipients are a temporary failure. RFC 821 listed the wrong code, 552, and
/// servers still send it (RFC 5321 section 4.5.3.1.10).
fn too_many_for_now(mut reply: Reply) -> Reply {
    let is_limit = match reply.enhanced {
        Some(EnhancedCode { subject: 5, detail: 3, .. }) => true,
        // Exim names no precise code here, and a full mailbox has the same 552.
        None | Some(EnhancedCode { subject: 0, detail: 0, .. }) => reply.code == 552 && names_recipients(&reply.text),
        Some(_) => false,
    };
    if reply.is_permanent() && is_limit {
        (reply.code, reply.enhanced) = (452, Some((4, 5, 3).into()));
    }
    reply
}

fn names_recipients(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["too many", "recipients", "rcpts"].iter().any(|words| text.contains(words))
}

/// Returns whether SMTPUTF8 is needed: for an international address, or if the sender announced SMTPUTF8 and
/// the header contains UTF-8 (RFC 6531 section 3.2). The announcement alone is no reason to refuse a plain
/// message.
fn needs_smtputf8(envelope: &Envelope, facts: &MessageFacts) -> bool {
    envelope.has_international_address() || (envelope.mail.smtputf8 && facts.has_international_header())
}
