//! A mail server of the operator's own: submission by SMTP, reading by IMAP, delivery truth from the log.

pub mod log_follower;
