//! The IMAP protocol without sockets: a tokenizer, the client side, and the server side.

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
pub use utf7::{decode as decode_name, encode as encode_name};
