//! The server's side of a session: state in, reply out, no sockets.
//!
//! The host reads from its socket, gives the bytes to [`Session::push`] and calls [`Session::step`] until it
//! says [`Step::NeedMore`]. Each step is one thing: a reply to write, a question to answer, a change of the
//! connection. So a pipelining client (RFC 2920) gets its replies in order although some of them wait for the
//! host's look-ups; the host may gather them and write once, before it reads again.
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
mod command;
mod config;
mod data;
mod input;
mod parameters;
mod session;

pub use budget::{MessageBudget, Share};
pub use config::{Config, Role};
pub use session::Session;

use std::fmt;

use crate::envelope::{Envelope, MailFrom, RcptTo};
use crate::reply::Reply;
use crate::secret::Credentials;

/// What the host has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write what was gathered, read from the client, [`Session::push`] it.
    NeedMore,
    /// Write this reply.
    Reply(Reply),
    /// Keep this piece of the message that is coming; the next ones follow, and the last one is the data of
    /// [`Question::Message`]. When another reply comes instead, or none, there will be no message. Only with
    /// [`Config::piece_bytes`]. Whoever cannot keep it says so with [`Session::lose`].
    Keep(Vec<u8>),
    /// Answer with [`Session::answer`] before the next step; a question left open is answered with 451.
    Ask(Question),
    /// Write what was gathered, do the TLS handshake, then call [`Session::tls_established`]. What the client
    /// sent behind STARTTLS is already dropped.
    StartTls,
    /// Write what was gathered and close the connection.
    Close,
}

/// What only the host can decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// May mail come from this sender?
    Mail(MailFrom),
    /// Is this recipient taken?
    Rcpt(RcptTo),
    /// Are these the credentials of a user? Any refusal is fit, the usual one is 535 5.7.8: a refused one
    /// counts as a bad command. [`Answer::bad_credentials`] gives it.
    Authenticate(Credentials),
    /// Take responsibility for this message (RFC 5321 section 4.2.5): once accepted it must not be lost.
    Message(Message),
}

/// A complete message.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Its sender and the recipients that were accepted, of which there is at least one.
    pub envelope: Envelope,
    /// Its bytes, or what follows those that were to be kept ([`Step::Keep`]): dot-unstuffed, every line ending in CRLF. Other control characters may occur.
    pub data: Vec<u8>,
    /// What the client called itself in EHLO or HELO, unverified, without control characters.
    pub client_name: String,
    /// The protocol for the `with` clause of a Received header (RFC 3848, RFC 6531 section 4.3).
    pub protocol: &'static str,
    /// What it takes of the server's [`MessageBudget`]: keep it for as long as its bytes.
    pub room: Share,
}

/// The length stands for the data, which is nobody's business in a log.
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
    /// Yes, with the usual reply.
    Accept,
    /// The message is stored under this queue id, which the reply names.
    Queued(String),
    /// No, with this reply (4xx or 5xx).
    Refuse(Reply),
}

impl Answer {
    /// Refuses credentials without telling whether the user exists (RFC 4954 section 6).
    pub fn bad_credentials() -> Self {
        Self::Refuse(auth::bad_credentials())
    }
}
