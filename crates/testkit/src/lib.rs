//! For tests only: a clock that obeys, randomness that repeats, a remote mail server that does as it is told, and a
//! whole server in a temporary directory.

mod app;
mod clock;
pub mod dialog;
mod dns;
mod dovecot;
mod entropy;
mod postfix;
mod sink;

pub use app::{Answer, PASSWORD, TestApp, TestSettings};
pub use clock::FakeClock;
pub use dns::FakeDns;
pub use dovecot::Dovecot;
pub use entropy::SeededEntropy;
pub use postfix::{Postfix, PostfixDelivery, PostfixRecipients, PostfixSettings};
pub use sink::{Received, SmtpSink};
