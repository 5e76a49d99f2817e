//! The server side of a session: commands in, replies out. No sockets.
//!
//! The host reads from its socket, passes the bytes to [`Session::push`] and calls [`Session::step`] until it
//! returns [`Step::NeedMore`]. Each step is a single action: a reply to write, a question to answer, or a
//! change of the connection. A pipelining client (RFC 2920) therefore gets its replies in order, although
//! some wait for look-ups of the host. The host may collect replies and write them once before the next read.
//!
//! ```
//! use mailapi_smtp::server::{Answer, Config, Question, Role, Session, Step};
//!
//! let mut session = Session::new(Config::new("mx.example", Role::Inbound));
//! let mut out = session.greeting().encode();
//! session.push(b"EHLO client.example\r\nMAIL FROM:<ann@remote.example>\r\nQUIT\r\n");
//! loop {
//!     match session.step() {
//!         Step::Reply(reply) => reply.encode_into(&mut out),
//!         Step::Ask(Question::Mail(_)) => session.answer(Answer::Accept),
//!         Step::Keep(_) | Step::Ask(_) | Step::StartTls => unreachable!("nothing else was asked for"),
//!         Step::NeedMore | Step::Close => break,
//!     }
//! }
//! assert!(out.ends_with(b"250 2.1.0 Ok\r\n221 2.0.0 Bye\r\n"));
//! ```

mod auth;
mod budget;
mod chunks;
mod command;
mod config;
mod data;
mod envelope_room;
mod input;
mod parameters;
mod session;
mod text;

pub use budget::{MessageBudget, Share};
pub use config::{Config, Role};
pub use session::Session;

use std::fmt;

use crate::envelope::{Envelope, MailFrom, RcptTo};
use crate::reply::Reply;
use crate::secret::Credentials;

/// Next action of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write the collected replies, read from the client and pass the bytes to [`Session::push`].
    NeedMore,
    /// Write this reply.
    Reply(Reply),
    /// Keep this piece of the message being received. Further pieces follow, and the last one is the data of
    /// [`Question::Message`]. There will be no message if [`Session::is_receiving`] is false at a reply. Only with
    /// [`Config::piece_bytes`]. A host that cannot keep the piece calls [`Session::lose`].
    Keep(Vec<u8>),
    /// Answer with [`Session::answer`] before the next step; an unanswered question gets the reply 451.
    Ask(Question),
    /// Write the collected replies, perform the TLS handshake, then call [`Session::tls_established`]. Bytes
    /// that the client sent after STARTTLS are already dropped.
    StartTls,
    /// Write the collected replies and close the connection.
    Close,
}

/// A decision that only the host can make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Is mail from this sender accepted?
    Mail(MailFrom),
    /// Is this recipient accepted?
    Rcpt(RcptTo),
    /// Are these credentials valid? A refusal counts as a bad command. Any reply is allowed; the usual one is
    /// 535 5.7.8 ([`Answer::bad_credentials`]).
    Authenticate(Credentials),
    /// Accept responsibility for this message (RFC 5321 section 4.2.5): once accepted, it must not be lost.
    Message(Message),
}

/// A complete message.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The sender and the accepted recipients, at least one.
    pub envelope: Envelope,
    /// The message in bytes, or its rest after the pieces ([`Step::Keep`]): dot-unstuffed, every line ending
    /// in CRLF. Other control characters may occur.
    pub data: Vec<u8>,
    /// The client's name in EHLO or HELO, unverified, without control characters.
    pub client_name: String,
    /// Protocol for the `with` clause of a Received header field (RFC 3848, RFC 6531 section 4.3).
    pub protocol: &'static str,
    /// The part of the [`MessageBudget`] of the message and its envelope: keep it as long as both.
    pub room: Share,
}

/// `Debug` shows the length instead of the message, which is private.
impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Message")
            .field("envelope", &self.envelope)
            .field("bytes", &self.data.len())
            .field("client_name", &self.client_name)
            .field("protocol", &self.protocol)
            .finish()
    }
}

/// The host's answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Accept, with the usual reply.
    Accept,
    /// The message is stored under this queue id, which the reply contains.
    Queued(String),
    /// Refuse, with this reply (4xx or 5xx).
    Refuse(Reply),
}

impl Answer {
    /// Refuses credentials without revealing whether the user exists (RFC 4954 section 6).
    pub fn bad_credentials() -> Self {
        Self::Refuse(auth::bad_credentials())
    }
}
