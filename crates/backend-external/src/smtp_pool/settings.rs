//! Settings of the SMTP connections.

use std::time::Duration;

use mailapi_model::{Secret, SharedSecret};

use crate::TlsMode;

/// The SMTP server that accepts mail, and the limits on its use. [`SmtpSettings::new`] returns the defaults that the
/// fields list.
#[derive(Debug, Clone)]
pub struct SmtpSettings {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// When connections are encrypted. Default: never.
    pub tls: TlsMode,
    /// The user for AUTH PLAIN; `None` skips authentication. Without TLS only on loopback addresses. Default: none.
    pub username: Option<String>,
    /// The user's password.
    pub password: SharedSecret,
    /// The name in EHLO. Default: `localhost`.
    pub hello_name: String,
    /// Maximum number of connections. Default: 16; Postfix is fastest at 4 to 16. A message takes one while it is
    /// still being stored.
    pub max_connections: usize,
    /// How long an idle connection is kept. Default: 1 minute; Postfix closes it after 5, and after 10 seconds under
    /// load.
    pub idle_lifetime: Duration,
    /// Time limit for connecting, until the server accepts mail. Default: 5 seconds.
    pub connect_timeout: Duration,
    /// Time limit for a reply, or for the transfer of a piece. Default: 30 seconds.
    pub command_timeout: Duration,
    /// Time limit for the reply to a message. Beyond it the outcome is unknown, so it should exceed the time of the
    /// mail server's own filters. Default: 2 minutes.
    pub data_timeout: Duration,
    /// How long a message waits for a connection slot. Default: 30 seconds.
    pub wait_timeout: Duration,
    /// Consecutive connection failures before a pause. Default: 3.
    pub failures_until_pause: u32,
    /// The first pause; it doubles while the server is unreachable. Default: 1 second.
    pub pause: Duration,
    /// The longest pause. Default: 15 seconds.
    pub max_pause: Duration,
}

impl SmtpSettings {
    /// The default settings for this server.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            tls: TlsMode::None,
            username: None,
            password: Secret::new(String::new()).into(),
            hello_name: "localhost".to_owned(),
            max_connections: 16,
            idle_lifetime: Duration::from_mins(1),
            connect_timeout: Duration::from_secs(5),
            command_timeout: Duration::from_secs(30),
            data_timeout: Duration::from_mins(2),
            wait_timeout: Duration::from_secs(30),
            failures_until_pause: 3,
            pause: Duration::from_secs(1),
            max_pause: Duration::from_secs(15),
        }
    }
}
