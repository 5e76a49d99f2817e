//! What the operator decides about connections to the IMAP server.

use std::time::Duration;

use mailapi_imap::client::ClientLimits;
use mailapi_model::{Secret, SharedSecret};

use crate::tls::TlsMode;

/// The IMAP server and how it is used.
#[derive(Debug, Clone)]
pub struct ImapSettings {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// When connections are encrypted.
    pub tls: TlsMode,
    /// The user that may act as every mailbox.
    pub master_user: String,
    /// Its password.
    pub master_password: SharedSecret,
    /// What stands between mailbox and master user where the server has LOGIN alone. Default `*`.
    pub master_separator: String,
    /// Connections at the same time. Default 60: Dovecot serves 100 log-ins at a time unless told otherwise, and beyond
    /// that it drops connections without a word.
    pub max_connections: usize,
    /// Connections of one mailbox at the same time, downloads included. Default 6: Dovecot allows 10 for one mailbox from
    /// one address (`mail_max_userip_connections`), and other programs beside us may want some.
    pub max_connections_per_mailbox: usize,
    /// Up to so many connections of one mailbox, another folder is read over another connection, so that each has its
    /// folder open. Default 2.
    pub warm_connections: usize,
    /// After how long a connection that nobody uses is closed. Default 5 minutes; Dovecot closes after 30.
    pub idle_lifetime: Duration,
    /// After how long a folder other than INBOX is opened again: until then a connection goes on telling of one that was
    /// renamed, whatever has its name now. Default 5 seconds.
    pub reopen_after: Duration,
    /// How long it may take to reach the server, TLS and its greeting included. Default 3 seconds.
    pub connect_timeout: Duration,
    /// How long a log-in may take. Default 20 seconds: after failures Dovecot lets each one wait up to 15.
    pub login_timeout: Duration,
    /// For how long the server may be silent, or take nothing, within a command. Default 60 seconds; in a long search
    /// Dovecot says something every 15.
    pub silence_timeout: Duration,
    /// How long a request waits for a connection when all are in use. Default 10 seconds.
    pub wait_timeout: Duration,
    /// After so many failures to reach the server one after the other it is left alone for a while. Default 3.
    pub failures_until_pause: u32,
    /// For how long at first; twice as long after each further failure. Default 1 second.
    pub pause: Duration,
    /// For how long at most. Default 30 seconds.
    pub max_pause: Duration,
    /// How long no log-in is tried after the server refused the master user. Default 60 seconds: each attempt makes
    /// Dovecot slower for our address.
    pub refused_pause: Duration,
    /// How long a mailbox that the server did not know is not asked for again, for the same reason. Default 10 seconds.
    pub unknown_mailbox_pause: Duration,
    /// How many unknown mailboxes are remembered. Default 10,000.
    pub unknown_mailboxes: u64,
    /// Octets of one read. Default 64 KiB.
    pub read_octets: usize,
    /// What the server may make us hold in memory.
    pub limits: ClientLimits,
}

impl ImapSettings {
    /// The defaults for a server.
    #[must_use]
    pub fn new(host: &str, port: u16, master_user: &str, master_password: Secret<String>) -> Self {
        Self {
            host: host.to_owned(),
            port,
            tls: TlsMode::None,
            master_user: master_user.to_owned(),
            master_password: master_password.into(),
            master_separator: "*".to_owned(),
            max_connections: 60,
            max_connections_per_mailbox: 6,
            warm_connections: 2,
            idle_lifetime: Duration::from_secs(5 * 60),
            reopen_after: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(3),
            login_timeout: Duration::from_secs(20),
            silence_timeout: Duration::from_secs(60),
            wait_timeout: Duration::from_secs(10),
            failures_until_pause: 3,
            pause: Duration::from_secs(1),
            max_pause: Duration::from_secs(30),
            refused_pause: Duration::from_secs(60),
            unknown_mailbox_pause: Duration::from_secs(10),
            unknown_mailboxes: 10_000,
            read_octets: 64 * 1024,
            limits: ClientLimits::default(),
        }
    }
}
