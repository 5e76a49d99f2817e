//! `[http]`: the API's listener and its limits.

use std::net::{IpAddr, SocketAddr};

use mailapi_http::{HttpSettings, RequestLimits};
use mailapi_model::DomainName;

use super::advanced::Advanced;
use super::limits::Limits;
use super::mirror::mirror;
use super::values::{ByteSize, ListenAddress, Unset};
use super::{ConfigError, at_least_one, is_public};

mirror!(
    /// The section.
    Http of HttpSettings {
        max_request_bytes: ByteSize,
    } with {
        listen: ListenAddress = ListenAddress(SocketAddr::from(([127, 0, 0, 1], 8080))),
        tls_listen: Unset<ListenAddress> = Unset(None),
        public_url: Unset<String> = Unset(None),
    }
);

impl Http {
    /// Returns the settings of the HTTP server.
    pub(super) fn settings(&self, limits: &Limits, advanced: &Advanced) -> HttpSettings {
        let mut settings = HttpSettings::default();
        self.apply(&mut settings);
        advanced.http.apply(&mut settings);
        settings.public_url.clone_from(&self.public_url.0);
        settings.limits = RequestLimits { per_minute: limits.requests_per_minute, per_hour: limits.requests_per_hour };
        settings.shutdown_grace = advanced.shutdown_grace.0;
        settings
    }

    /// Returns the name in the public URL, if it is one of HTTPS at its usual port.
    pub(super) fn host_of_url(&self) -> Option<String> {
        let authority = self.public_url.0.as_ref()?.strip_prefix("https://")?.split(['/', '?']).next()?;
        let host = authority.strip_suffix(":443").unwrap_or(authority);
        let name = host.parse::<DomainName>().ok().filter(|_| host.parse::<IpAddr>().is_err())?;
        Some(name.as_str().to_owned())
    }

    /// Returns whether other machines reach HTTPS of this server at its usual port.
    pub(super) fn has_public_https(&self) -> bool {
        self.tls_listen.0.is_some_and(|ListenAddress(address)| is_public(address) && address.port() == 443)
    }

    /// Returns the name in the public URL if this server has HTTPS itself; `None` for an address.
    pub(super) fn host_of_https(&self) -> Option<String> {
        let url = self.public_url.0.as_ref().filter(|_| self.tls_listen.0.is_some())?;
        let host = url.strip_prefix("https://")?.split(['/', ':', '?']).next()?;
        let name = host.parse::<DomainName>().ok().filter(|_| host.parse::<IpAddr>().is_err())?;
        Some(name.as_str().to_owned())
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("http.max_request_bytes", self.max_request_bytes.0)?;
        let http = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if self.public_url.0.as_ref().is_some_and(|url| !http(url)) {
            return Err(ConfigError::new("http.public_url: must begin with http:// or https://"));
        }
        Ok(())
    }
}
