//! A backend for the operator's own mail server: SMTP submission, IMAP reading, and delivery status from its log.

mod blocking;
pub mod bounces;
mod breaker;
mod command;
mod delivery_feed;
pub mod doveadm;
mod external;
pub mod imap_pool;
pub mod log_follower;
pub mod mailboxes;
mod own_session;
pub mod printed;
mod provisioning;
pub mod queue;
pub mod search_index;
pub mod smtp_pool;
pub mod submission;
mod tls;

pub use external::{External, ExternalSettings, OpenError};
pub use own_session::spawn_in_own_session;
pub use tls::TlsMode;
