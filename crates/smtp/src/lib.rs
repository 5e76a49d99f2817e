//! SMTP without sockets: bytes in, replies and decisions out.
//!
//! [`server`] is the server's side of a session, for mail from outside and for submission; [`client`] is the
//! client's side, with the result of every single recipient. Both do no input or output, know no clock and
//! start no task, so that a test can run a whole dialog in memory and an embedder can use any runtime.
//!
//! What both share stands here: the [`Envelope`] with everything that `MAIL` and `RCPT` can say, the [`Reply`],
//! and [`Credentials`] whose password no log shows.

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
