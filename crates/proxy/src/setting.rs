//! Which proxies are trusted, and at which listeners they announce their clients.

use std::fmt;
use std::str::FromStr;

use crate::{AnnouncingProxies, Network, NetworkError};

/// A listener at which trusted proxies can announce clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxiedListener {
    /// Inbound mail.
    Smtp,
    /// Submission.
    Submission,
    /// Submission over TLS from the beginning.
    Submissions,
    /// IMAP.
    Imap,
    /// IMAP over TLS from the beginning.
    Imaps,
    /// The API without TLS.
    Http,
    /// The API over TLS.
    Https,
}

/// A text that names no listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be among smtp, submission, submissions, imap, imaps, http and https")]
pub struct ProxiedListenerError;

impl ProxiedListener {
    const ALL: [Self; 7] =
        [Self::Smtp, Self::Submission, Self::Submissions, Self::Imap, Self::Imaps, Self::Http, Self::Https];

    const fn name(self) -> &'static str {
        match self {
            Self::Smtp => "smtp",
            Self::Submission => "submission",
            Self::Submissions => "submissions",
            Self::Imap => "imap",
            Self::Imaps => "imaps",
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl FromStr for ProxiedListener {
    type Err = ProxiedListenerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|listener| listener.name() == text).ok_or(ProxiedListenerError)
    }
}

impl fmt::Display for ProxiedListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A proxy in front of this server: `10.0.0.5`, or `10.0.0.0/8 smtp imaps` if its connections to these listeners begin
/// with a PROXY header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedProxy {
    network: Network,
    announces_at: Vec<ProxiedListener>,
}

/// A text that describes no proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrustedProxyError {
    /// The text does not begin with an address.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The text after the address names no listener.
    #[error("the words after the address {0}")]
    Listener(#[from] ProxiedListenerError),
}

impl TrustedProxy {
    /// Returns the addresses of the proxy.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// Returns whether connections of this proxy to a listener begin with a PROXY header.
    #[must_use]
    pub fn announces_at(&self, listener: ProxiedListener) -> bool {
        self.announces_at.contains(&listener)
    }
}

impl FromStr for TrustedProxy {
    type Err = TrustedProxyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_ascii_whitespace();
        let network = words.next().ok_or(NetworkError)?.parse()?;
        let announces_at = words.map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { network, announces_at })
    }
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.network.fmt(f)?;
        self.announces_at.iter().try_for_each(|listener| write!(f, " {listener}"))
    }
}

impl AnnouncingProxies {
    /// Returns those of the trusted proxies that announce their clients at a listener.
    #[must_use]
    pub fn at(listener: ProxiedListener, trusted: &[TrustedProxy]) -> Self {
        let announcing = trusted.iter().filter(|proxy| proxy.announces_at(listener));
        Self::new(announcing.map(TrustedProxy::network).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_has_a_name() {
        for listener in ProxiedListener::ALL {
            assert_eq!(listener.to_string().parse(), Ok(listener));
        }
        assert_eq!("pop3".parse::<ProxiedListener>(), Err(ProxiedListenerError));
    }

    #[test]
    fn a_proxy_is_an_address_and_listeners() {
        for text in ["", "smtp", "mx.example.org", "10.0.0.1 pop3", "10.0.0.1 10.0.0.2", "10.0.0.1,smtp"] {
            assert!(text.parse::<TrustedProxy>().is_err(), "{text}");
        }
        let error = "10.0.0.1 pop3".parse::<TrustedProxy>().unwrap_err().to_string();
        assert!(error.starts_with("the words after the address must be among smtp, "), "{error}");
        for text in ["10.0.0.1/32", "10.0.0.0/8 smtp imaps", "2001:db8::/32 https"] {
            assert_eq!(text.parse::<TrustedProxy>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn proxies_announce_clients_only_where_the_setting_says_so() {
        let trusted = ["10.0.0.1 smtp", "10.0.0.2"].map(|text| text.parse().unwrap());
        let announces =
            |listener, address: &str| AnnouncingProxies::at(listener, &trusted).contain(address.parse().unwrap());
        assert!(announces(ProxiedListener::Smtp, "10.0.0.1"));
        assert!(!announces(ProxiedListener::Imap, "10.0.0.1"));
        assert!(!announces(ProxiedListener::Smtp, "10.0.0.2"));
    }
}
