//! The keys `relay…`: a server that receives all mail for other domains.

use std::fmt;
use std::str::FromStr;

use mailapi_backend_embedded::delivery_agent::{Relay, RelayLogin, RelayTls};
use mailapi_model::SecretText;
use mailapi_tls::Trust;
use serde::{Deserialize, Serialize};

use super::{ConfigError, Embedded};
use crate::config::read_file;

/// `host:port`; an IPv6 address is in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RelayAddress {
    host: String,
    port: u16,
}

impl FromStr for RelayAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not valid; write host:port, such as smtp.example.net:587");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?.to_string(),
            None if host.is_empty() || host.contains(|c: char| c == ':' || c.is_whitespace()) => return Err(wrong()),
            None => host.to_owned(),
        };
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for RelayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// When the connection to the relay is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RelayTlsName {
    Never,
    WhenOffered,
    Required,
    Implicit,
}

impl RelayTlsName {
    const fn policy(self) -> RelayTls {
        match self {
            Self::Never => RelayTls::Never,
            Self::WhenOffered => RelayTls::WhenOffered,
            Self::Required => RelayTls::Required,
            Self::Implicit => RelayTls::Implicit,
        }
    }
}

impl Embedded {
    /// Returns the relay, if configured; reads its certificate authority and its password.
    pub(super) fn relay(&self) -> Result<Option<Relay>, ConfigError> {
        let Some(address) = &self.relay.0 else { return Ok(None) };
        let mut relay = Relay::new(&address.host, address.port);
        relay.tls = self.relay_tls.policy();
        if let Some(path) = &self.relay_ca.0 {
            relay.trust = Trust::Authorities(read_file("mail.embedded.relay_ca", path)?);
        }
        if let (Some(username), Some(password)) = (&self.relay_user.0, self.relay_password()?) {
            relay.credentials = Some(RelayLogin { username: username.clone(), password: password.into() });
        }
        Ok(Some(relay))
    }

    /// Reads the password for the relay, if configured.
    pub(crate) fn relay_password(&self) -> Result<Option<SecretText>, ConfigError> {
        self.relay_password.resolve("mail.embedded.relay_password", &self.relay_password_file)
    }

    pub(super) fn check_relay(&self) -> Result<(), ConfigError> {
        let has_password = self.relay_password.is_set() || self.relay_password_file.0.is_some();
        if self.relay_user.0.is_some() != has_password {
            return Err(ConfigError::new("mail.embedded.relay_user and relay_password: set both or none"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_host_or_a_port_is_refused() {
        for text in
            ["", ":", "relay", "relay:", ":25", "relay:smtp", "relay:70000", "2001:db8::1:25", "[relay]:25", "a b:25"]
        {
            assert!(text.parse::<RelayAddress>().is_err(), "{text}");
        }
        for text in ["relay.example:587", "192.0.2.1:25", "[2001:db8::1]:25"] {
            assert_eq!(text.parse::<RelayAddress>().unwrap().to_string(), text);
        }
    }
}
