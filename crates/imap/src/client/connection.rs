//! One connection with one command in flight, or two pipelined ones.

use std::collections::VecDeque;

use super::asked::Asked;
use super::capabilities::Capabilities;
use super::command::{Command, Effect};
use super::limits::ClientLimits;
use super::response::{Response, Untagged};
use super::status::{Code, StatusResponse};
use crate::secret::Password;
use crate::token::{FrameReader, Poll, Refusal, Side, StreamPoll, SyntaxError};

/// A protocol violation by the server. The connection is unusable afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// A response exceeds [`ClientLimits`].
    #[error("the server's response is too long")]
    TooLong,
    /// A response breaks the grammar.
    #[error("the server's response is invalid: {0}")]
    Syntax(#[from] SyntaxError),
    /// The server sent a response to no command.
    #[error("the server sent an unexpected response")]
    Unexpected,
}

/// An event on a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// No complete response yet: write the output, then feed more input.
    NeedMore,
    /// The server's greeting.
    Greeting(StatusResponse),
    /// Untagged data: part of a response, or an unsolicited change.
    Untagged(Untagged),
    /// A streamed body of this size in octets begins.
    BodyBegin(u64),
    /// This number of further body octets is available from [`Connection::body_piece`].
    BodyPiece(usize),
    /// The streamed body is complete.
    BodyEnd,
    /// The server asks for the content of the command: pass it to [`Connection::send_content`].
    ContentWanted,
    /// The first command in flight is complete.
    Done(StatusResponse),
}

struct InFlight {
    tag: String,
    /// The parts still to be sent, one for each continuation request.
    stretches: VecDeque<Vec<u8>>,
    answer: Option<Password>,
    /// The octets of the content that are still to be sent.
    content: u64,
    effect: Effect,
    streams: bool,
    asked: Asked,
    /// The completion, if it arrived before that of the first command.
    answered: Option<StatusResponse>,
}

/// The state of one connection.
pub struct Connection {
    limits: ClientLimits,
    reader: FrameReader,
    out: Vec<u8>,
    greeted: bool,
    tags: u64,
    in_flight: VecDeque<InFlight>,
    capabilities: Option<Capabilities>,
}

impl Connection {
    /// Creates a connection that waits for the server's greeting.
    pub fn new(limits: ClientLimits) -> Self {
        let reader = FrameReader::new(Side::Client, limits.for_reader());
        let (out, in_flight) = (Vec::new(), VecDeque::new());
        Self { limits, reader, out, greeted: false, tags: 0, in_flight, capabilities: None }
    }

    /// The server's capabilities; `None` if they must be requested (again).
    pub fn capabilities(&self) -> Option<&Capabilities> {
        self.capabilities.as_ref()
    }

    /// Whether a command may be started: the greeting has arrived and no command is in flight.
    pub fn is_ready(&self) -> bool {
        self.greeted && self.in_flight.is_empty()
    }

    /// Starts a command.
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] if the connection is not ready.
    pub fn start(&mut self, command: Command) -> Result<(), ClientError> {
        if !self.is_ready() {
            return Err(ClientError::Unexpected);
        }
        self.send(command);
        Ok(())
    }

    /// Pipelines two commands: sends the second without waiting for the first response. [`Event::Done`] comes
    /// twice, in the order of the commands, even if the server completes the second one first.
    ///
    /// Untagged data may belong to either command, so the pair must not be ambiguous. A FETCH followed by a NOOP is
    /// safe (RFC 3501 section 5.5).
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] if the connection is not ready, or if one of the commands needs a continuation
    /// request or changes the connection.
    pub fn start_both(&mut self, first: Command, second: Command) -> Result<(), ClientError> {
        if !self.is_ready() || !first.is_one_line() || !second.is_one_line() {
            return Err(ClientError::Unexpected);
        }
        self.send(first);
        self.send(second);
        Ok(())
    }

    fn send(&mut self, mut command: Command) {
        self.tags += 1;
        let tag = format!("a{}", self.tags);
        let (answer, content) = (command.answer.take(), command.content());
        let (effect, streams) = (command.effect, command.streams);
        let asked = std::mem::replace(&mut command.asked, Asked::Nothing);
        // With unknown capabilities, every literal waits for a continuation request.
        let nothing = Capabilities::default();
        let (first, stretches) = command.into_bytes(&tag, self.capabilities.as_ref().unwrap_or(&nothing));
        self.out.extend(first);
        self.in_flight.push_back(InFlight { tag, stretches, answer, content, effect, streams, asked, answered: None });
    }

    /// Takes the octets to be written now.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Sends the next octets of a command's content, after [`Event::ContentWanted`]. The command ends after the last
    /// one.
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] if the command has fewer octets left.
    pub fn send_content(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        let command = self.in_flight.front_mut().ok_or(ClientError::Unexpected)?;
        command.content = command.content.checked_sub(bytes.len() as u64).ok_or(ClientError::Unexpected)?;
        self.out.extend_from_slice(bytes);
        if command.content == 0 {
            self.out.extend(command.stretches.pop_front().unwrap_or_default());
        }
        Ok(())
    }

    /// Adds octets from the server; only after [`Event::NeedMore`].
    pub fn feed(&mut self, bytes: &[u8]) {
        self.reader.feed(bytes);
    }

    /// The input buffer, for reading straight into it. Append only; existing octets must stay.
    pub fn input(&mut self) -> &mut Vec<u8> {
        self.reader.input()
    }

    /// The octets of the last [`Event::BodyPiece`]; valid until more input is added.
    pub fn body_piece(&self) -> &[u8] {
        self.reader.piece()
    }

    /// Returns the next event.
    ///
    /// # Errors
    /// On a protocol violation; the connection is unusable then.
    pub fn poll(&mut self) -> Result<Event, ClientError> {
        // The second of two pipelined commands may have completed first; report it once it is the first.
        if let Some(status) = self.in_flight.front_mut().and_then(|command| command.answered.take()) {
            self.in_flight.pop_front();
            return Ok(Event::Done(status));
        }
        loop {
            let frame = match self.poll_reader() {
                StreamPoll::NeedMore => return Ok(Event::NeedMore),
                StreamPoll::Begin(size) => {
                    self.demand_asked_body()?;
                    return Ok(Event::BodyBegin(size));
                }
                StreamPoll::Piece(bytes) => return Ok(Event::BodyPiece(bytes)),
                StreamPoll::End => return Ok(Event::BodyEnd),
                // A FETCH response was too long and skipped: only that message is lost, not the connection.
                StreamPoll::Refused(Refusal { skipped: Some(number), .. }) if self.greeted => {
                    return Ok(Event::Untagged(Untagged::TooLong(number)));
                }
                StreamPoll::Refused(_) | StreamPoll::Overrun => return Err(ClientError::TooLong),
                StreamPoll::Frame(frame) => frame,
            };
            match Response::read(frame, &self.limits)? {
                Response::Continuation => {
                    if self.in_flight.front().is_some_and(|command| command.content > 0) {
                        return Ok(Event::ContentWanted);
                    }
                    self.go_on()?;
                }
                Response::Untagged(untagged, tag) => {
                    self.demand_asked(&untagged, tag.as_deref())?;
                    return self.untagged(untagged);
                }
                Response::Tagged(tag, status) => {
                    if let Some(status) = self.tagged(&tag, status)? {
                        return Ok(Event::Done(status));
                    }
                }
            }
        }
    }

    fn poll_reader(&mut self) -> StreamPoll {
        if self.in_flight.front().is_some_and(|command| command.streams) {
            return self.reader.poll_streaming();
        }
        match self.reader.poll() {
            // Only a server's reader asks for a continuation, or passes on messages to keep.
            Poll::NeedMore | Poll::NeedContinuation | Poll::Keep { .. } => StreamPoll::NeedMore,
            Poll::Frame(frame) => StreamPoll::Frame(frame),
            Poll::Refused(refusal) => StreamPoll::Refused(refusal),
            Poll::Overrun => StreamPoll::Overrun,
        }
    }

    fn go_on(&mut self) -> Result<(), ClientError> {
        let command = self.in_flight.front_mut().ok_or(ClientError::Unexpected)?;
        if let Some(stretch) = command.stretches.pop_front() {
            self.out.extend(stretch);
        } else {
            // Without a pending literal, the request belongs to AUTHENTICATE.
            let answer = command.answer.take().ok_or(ClientError::Unexpected)?;
            self.out.extend_from_slice(answer.expose().as_bytes());
            self.out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Rejects contents that no command in flight requested. They answer an earlier command, so later responses
    /// cannot be trusted either.
    fn demand_asked(&self, untagged: &Untagged, tag: Option<&str>) -> Result<(), ClientError> {
        let mut in_flight = self.in_flight.iter();
        let is_asked = match untagged {
            Untagged::Fetch(message) if message.has_contents() => {
                in_flight.any(|command| command.asked.includes(message, true))
            }
            Untagged::Found(_) => {
                in_flight.any(|command| command.asked == Asked::Search && tag.is_none_or(|tag| tag == command.tag))
            }
            _ => true,
        };
        if is_asked { Ok(()) } else { Err(ClientError::Unexpected) }
    }

    /// Does the same for a streamed body, before its octets are returned.
    fn demand_asked_body(&self) -> Result<(), ClientError> {
        let is_asked = match Response::read(self.reader.head(), &self.limits)? {
            Response::Untagged(Untagged::Fetch(message), _) => {
                self.in_flight.iter().any(|command| command.asked.includes(&message, false))
            }
            _ => false,
        };
        if is_asked { Ok(()) } else { Err(ClientError::Unexpected) }
    }

    fn untagged(&mut self, untagged: Untagged) -> Result<Event, ClientError> {
        match &untagged {
            Untagged::Status(status) => self.learn(status),
            Untagged::Capability(capabilities) => self.capabilities = Some(capabilities.clone()),
            _ => {}
        }
        if self.greeted {
            return Ok(Event::Untagged(untagged));
        }
        self.greeted = true;
        match untagged {
            Untagged::Status(status) => Ok(Event::Greeting(status)),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Completes a command. Returns its status, unless an earlier command is still in flight.
    fn tagged(&mut self, tag: &str, status: StatusResponse) -> Result<Option<StatusResponse>, ClientError> {
        let mut behind = self.in_flight.iter_mut().skip(1);
        if let Some(overtaking) = behind.find(|command| command.tag == tag && command.answered.is_none()) {
            overtaking.answered = Some(status);
            return Ok(None);
        }
        let command = self.in_flight.pop_front().filter(|command| command.tag == tag).ok_or(ClientError::Unexpected)?;
        if status.is_ok() && command.effect != Effect::None {
            // Drop capabilities announced before the command completed: they describe the old state or came
            // unprotected (RFC 3501 section 6.2.1).
            self.capabilities = None;
        }
        if status.is_ok() && command.effect == Effect::StartTls {
            // Plain-text input after STARTTLS may be injected by an attacker.
            self.reader.clear();
            return Ok(Some(status));
        }
        self.learn(&status);
        Ok(Some(status))
    }

    fn learn(&mut self, status: &StatusResponse) {
        if let Some(Code::Capability(capabilities)) = &status.code {
            self.capabilities = Some(capabilities.clone());
        }
    }
}
