//! A mail server of the operator's own: submission by SMTP, reading by IMAP, delivery truth from the log.

pub mod bounces;
mod breaker;
mod delivery_feed;
pub mod doveadm;
mod external;
pub mod imap_pool;
pub mod log_follower;
pub mod mailboxes;
pub mod printed;
mod provisioning;
pub mod search_index;
pub mod smtp_pool;
pub mod submission;
mod tls;

pub use external::{External, ExternalSettings, OpenError};
pub use tls::TlsMode;
