//! SMTP over a socket: drives the client session of `mailapi_smtp` over TCP and TLS.
//!
//! [`Connection::open`] connects, encrypts and logs in. [`Connection::send`] sends one message after another while
//! [`Connection::is_reusable`] returns true. Every wait has a limit ([`TimeLimits`]).
//!
//! A [`Failure`] names the stage at which the session failed. For a message, [`End::Failed`] means that the final dot
//! was not written, so a retry is safe; [`End::OutcomeUnknown`] means that the server may have accepted the message.
//!
//! [`Failure`]: mailapi_smtp::client::Failure
//! [`End::Failed`]: mailapi_smtp::client::End::Failed
//! [`End::OutcomeUnknown`]: mailapi_smtp::client::End::OutcomeUnknown

mod connection;
mod outbound_message;
mod socket;
mod time_limits;

pub use connection::Connection;
pub use outbound_message::OutboundMessage;
pub use time_limits::TimeLimits;
