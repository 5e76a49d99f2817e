//! Settings of the SMTP connections.

use std::time::Duration;

use mailapi_model::{Secret, SharedSecret};
use mailapi_smtp::client::{ClientConfig, TlsPolicy};
use mailapi_smtp::{Credentials, Password};
use mailapi_smtp_client::TimeLimits;

use crate::TlsMode;

/// Shorter limits than for other hosts' servers: a request waits, and the server is on the operator's network.
const TIME_LIMITS: TimeLimits = TimeLimits {
    connect: Duration::from_secs(5),
    greeting: Duration::from_secs(5),
    setup: Duration::from_secs(5),
    write: Duration::from_secs(30),
    reply: Duration::from_secs(30),
    // The mail server's own filters run before its reply.
    final_reply: Duration::from_mins(2),
    // Only bounds a server that accepts each piece in the last second.
    message: Duration::from_hours(24),
};

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
    /// Time limits of a connection.
    pub time_limits: TimeLimits,
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
            time_limits: TIME_LIMITS,
            wait_timeout: Duration::from_secs(30),
            failures_until_pause: 3,
            pause: Duration::from_secs(1),
            max_pause: Duration::from_secs(15),
        }
    }

    pub(super) fn client_config(&self) -> ClientConfig {
        let credentials = self.username.as_ref().map(|username| Credentials {
            username: username.clone(),
            password: Password::new(self.password.get().into_inner()),
        });
        let tls = match self.tls {
            TlsMode::None => TlsPolicy::Never,
            TlsMode::StartTls => TlsPolicy::Required,
            TlsMode::Implicit => TlsPolicy::Implicit,
        };
        ClientConfig { tls, credentials, ..ClientConfig::new(self.hello_name.as_str()) }
    }
}
