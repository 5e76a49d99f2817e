//! What the operator decides about connections to the SMTP server.

use std::time::Duration;

use mailapi_model::{Secret, SharedSecret};

use crate::TlsMode;

/// The SMTP server that mail is handed over to, and how it is used. [`SmtpSettings::new`] gives the defaults named at
/// each field.
#[derive(Debug, Clone)]
pub struct SmtpSettings {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// When connections are encrypted. Default: never.
    pub tls: TlsMode,
    /// What AUTH PLAIN presents; without a user nothing. In clear text only to a loopback address. Default: nothing.
    pub username: Option<String>,
    /// The user's password.
    pub password: SharedSecret,
    /// Our name in EHLO. Default: `localhost`.
    pub hello_name: String,
    /// Connections at the same time. Default: 16; Postfix is fastest at 4 to 16. One is taken while the message is still
    /// being stored.
    pub max_connections: usize,
    /// After how long a connection that nobody uses is closed. Default: 1 minute; Postfix closes after 5, under load
    /// after 10 seconds.
    pub idle_lifetime: Duration,
    /// How long it may take to reach the server, until it takes mail. Default: 5 seconds.
    pub connect_timeout: Duration,
    /// How long the server may take for a reply, or to take a piece of a message. Default: 30 seconds.
    pub command_timeout: Duration,
    /// How long it may take for the reply to a message. What passes it has an unknown outcome, so it should be longer
    /// than the mail server's own filters need. Default: 2 minutes.
    pub data_timeout: Duration,
    /// How long a message may wait for one of the connections. Default: 30 seconds.
    pub wait_timeout: Duration,
    /// After how many failures to reach the server in a row it is left alone for a while. Default: 3.
    pub failures_until_pause: u32,
    /// For how long, at first; it doubles as long as the server stays away. Default: 1 second.
    pub pause: Duration,
    /// For how long at most. Default: 15 seconds.
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
