//! For tests only: a clock that obeys, randomness that repeats, a remote mail server that does as it is told, and a
//! whole server in a temporary directory.

mod app;
mod clock;
pub mod dialog;
mod dns;
mod entropy;
mod sink;

pub use app::{Answer, PASSWORD, TestApp, TestSettings};
pub use clock::FakeClock;
pub use dns::FakeDns;
pub use entropy::SeededEntropy;
pub use sink::{Received, SmtpSink};
