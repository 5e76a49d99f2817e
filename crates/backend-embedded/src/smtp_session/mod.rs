//! Functions shared by both SMTP listeners: a session over a connection, and accepting its messages.
//!
//! `mailapi_smtp::server` implements the session's logic; this module supplies bytes, time-outs and answers.
//! A listener is a [`Host`]: it decides on senders and recipients, and prepares messages before they are
//! accepted.

mod accept;
mod body;
mod conversation;
pub(crate) mod forged;
mod message_pace;
mod recipients;
mod settings;
mod setup;
mod trace_fields;

use async_trait::async_trait;
use mailapi_backend::Buffer;
use mailapi_smtp::server::{Answer, Message};
use mailapi_smtp::{Credentials, MailFrom, RcptTo};

use crate::net::ClosingWords;

pub(crate) use accept::{Delivery, Source, accept_message};
pub(crate) use body::Body;
pub(crate) use conversation::{SessionSetup, converse};
pub(crate) use recipients::{Postmaster, forward_path, is_mailer_daemon, not_looked_up, reverse_path};
pub use settings::SmtpSettings;
pub(crate) use setup::SmtpSetup;
pub(crate) use trace_fields::{TraceFields, check_hops, header_of};

/// Sent to clients without a session (RFC 5321 section 3.8).
pub(crate) const CLOSING_WORDS: ClosingWords = ClosingWords {
    busy: b"421 4.7.0 Too many connections, try again later\r\n",
    not_announced: b"421 4.7.0 A PROXY header is required from this address\r\n",
};

/// The decisions of a session.
#[async_trait]
pub(crate) trait Host: Send {
    /// Is mail from this sender accepted?
    async fn may_send(&mut self, mail: &MailFrom) -> Answer;

    /// Is this recipient accepted?
    async fn may_receive(&mut self, recipient: &RcptTo) -> Answer;

    /// Are these credentials valid?
    async fn log_in(&mut self, credentials: Credentials) -> Answer;

    /// Accepts responsibility for a message, whose bytes are `body`. Returns [`Answer::Queued`] only if it
    /// is durable.
    async fn take(&mut self, message: Message, body: Body) -> Answer;

    /// Returns the buffer for the client's long messages.
    fn buffer(&self) -> Buffer;

    /// TLS was established: discards all state received in clear text (RFC 3207 section 4.2).
    fn tls_established(&mut self);
}
