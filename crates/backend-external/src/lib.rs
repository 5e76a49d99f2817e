//! A mail server of the operator's own: submission by SMTP, reading by IMAP, delivery truth from the log.

mod breaker;
pub mod imap_pool;
pub mod log_follower;
pub mod mailboxes;
pub mod smtp_pool;
pub mod submission;
mod tls;

pub use tls::{TlsError, TlsMode, TlsTrust, client_config};
