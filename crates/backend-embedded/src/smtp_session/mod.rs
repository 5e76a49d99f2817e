//! What the two SMTP listeners share: carrying a session over a connection, and taking over the message at its end.
//!
//! The session's logic is `mailapi_smtp::server`; here it gets its octets, its time-outs and its answers. A listener
//! is a [`Host`]: it says who may send, who may receive, and what is done to a message before it is taken over.

mod accept;
mod body;
mod conversation;
mod recipients;
mod settings;
mod trace_fields;

use async_trait::async_trait;
use mailapi_smtp::server::{Answer, Message};
use mailapi_smtp::{Credentials, MailFrom, RcptTo};

pub(crate) use accept::{Delivery, accept_message};
pub(crate) use body::Body;
pub(crate) use conversation::{SessionSetup, converse};
pub(crate) use recipients::{Postmaster, forward_path, is_mailer_daemon, not_looked_up, reverse_path};
pub use settings::SmtpSettings;
pub(crate) use trace_fields::{TraceFields, check_hops, header_of};

/// What a client above the limits is told (RFC 5321 section 3.8).
pub(crate) const BUSY: &[u8] = b"421 4.7.0 Too many connections, try again later\r\n";

/// Who decides during a session.
#[async_trait]
pub(crate) trait Host: Send {
    /// May mail come from this sender?
    async fn may_send(&mut self, mail: &MailFrom) -> Answer;

    /// Is this recipient taken?
    async fn may_receive(&mut self, recipient: &RcptTo) -> Answer;

    /// Are these the credentials of a user?
    async fn log_in(&mut self, credentials: Credentials) -> Answer;

    /// Takes responsibility for a message, whose octets are `body`. [`Answer::Queued`] only when it is on disk.
    async fn take(&mut self, message: Message, body: Body) -> Answer;

    /// The handshake is done; what was said before does not count (RFC 3207 section 4.2).
    fn tls_established(&mut self);
}
