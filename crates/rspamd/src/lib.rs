//! Asks rspamd whether a message is spam: one HTTP exchange for each message, which streams it.

mod address;
mod answer;
mod exchange;

pub use address::RspamdAddress;
pub use answer::{Action, Verdict};
pub use exchange::{CheckedMail, Rspamd, RspamdError, TIME_LIMIT};
