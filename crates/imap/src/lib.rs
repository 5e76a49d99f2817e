//! IMAP without sockets: one token reader, session logic, a file per state.

pub mod client;
mod datetime;
mod flag;
mod mailbox;
mod secret;
pub mod server;
pub mod token;
mod utf7;

pub use flag::{Flags, Keyword, SystemFlag};
pub use mailbox::{DELIMITER, InvalidMailboxName, MailboxName, MailboxPattern};
pub use secret::Password;
