//! SMTP without sockets: bytes in, replies and decisions out.
//!
//! [`server`] implements the server side of a session, for inbound mail and for submission. [`client`]
//! implements the client side and reports a result for each recipient. Neither does I/O, reads a clock or
//! starts a task. A test can therefore run a whole dialog in memory, and a host can use any runtime.
//!
//! Both sides share the [`Envelope`] with the parameters of `MAIL` and `RCPT`, the [`Reply`], and
//! [`Credentials`], whose password is never logged.

pub mod client;
mod envelope;
mod path;
mod reply;
mod secret;
pub mod server;
mod xtext;

pub use envelope::{BodyType, Envelope, MailFrom, Notify, RcptTo, Ret};
pub use reply::{EnhancedCode, Reply};
pub use secret::{Credentials, Password};
