//! Settings of the IMAP connections.

use std::time::Duration;

use mailapi_imap::client::ClientLimits;
use mailapi_model::{Secret, SharedSecret};

use crate::tls::TlsMode;

/// The maximum number of folders of a mailbox. A longer list would take too much memory.
pub(crate) const MAX_FOLDERS: usize = 50_000;

/// The IMAP server and the limits on its use.
#[derive(Debug, Clone)]
pub struct ImapSettings {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// When connections are encrypted.
    pub tls: TlsMode,
    /// The user that may act as every mailbox.
    pub master_user: String,
    /// The master user's password.
    pub master_password: SharedSecret,
    /// The separator between mailbox and master user, for servers that have LOGIN only. Default `*`.
    pub master_separator: String,
    /// Maximum number of connections. Default 60: by default Dovecot serves 100 logins at a time, and silently drops
    /// connections beyond that.
    pub max_connections: usize,
    /// Maximum number of connections per mailbox, including downloads. Default 6: Dovecot allows 10 per mailbox and
    /// address (`mail_max_userip_connections`), and other programs on this host may need some.
    pub max_connections_per_mailbox: usize,
    /// Below this number of connections per mailbox, another folder gets a connection of its own, so that each folder
    /// remains open. Default 2.
    pub warm_connections: usize,
    /// How long an idle connection is kept. Default 5 minutes; Dovecot closes it after 30.
    pub idle_lifetime: Duration,
    /// The time after which a folder other than INBOX is reopened. Until then, a connection keeps reporting a renamed
    /// folder under its old name. Default 5 seconds.
    pub reopen_after: Duration,
    /// Time limit for connecting, including TLS and the greeting. Default 3 seconds.
    pub connect_timeout: Duration,
    /// Time limit for a login. Default 20 seconds: after failures Dovecot delays logins by up to 15.
    pub login_timeout: Duration,
    /// How long the server may neither send nor accept data within a command. Default 60 seconds; Dovecot sends a
    /// notice every 15 seconds during a long search.
    pub silence_timeout: Duration,
    /// How long a request waits for a connection if all are in use. Default 10 seconds.
    pub wait_timeout: Duration,
    /// Consecutive connection failures before a pause. Default 3.
    pub failures_until_pause: u32,
    /// The first pause. It doubles after each further failure. Default 1 second.
    pub pause: Duration,
    /// The longest pause. Default 30 seconds.
    pub max_pause: Duration,
    /// The pause after the server rejected the master user. Default 60 seconds: each attempt makes Dovecot slower for
    /// this address.
    pub refused_pause: Duration,
    /// How long a mailbox unknown to the server is not tried again, for the same reason. Default 10 seconds.
    pub unknown_mailbox_pause: Duration,
    /// How many unknown mailboxes are remembered. Default 10,000.
    pub unknown_mailboxes: usize,
    /// Bytes per read. Default 64 KiB.
    pub read_bytes: usize,
    /// Memory limits on the server's responses.
    pub limits: ClientLimits,
}

impl ImapSettings {
    /// Returns the defaults for a server.
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
            read_bytes: 64 * 1024,
            limits: ClientLimits::default(),
        }
    }
}
