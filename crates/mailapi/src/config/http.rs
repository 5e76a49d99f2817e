//! `[http]`: where the API listens, and what it takes in.

use std::net::SocketAddr;
use std::time::Duration;

use mailapi_http::{HttpSettings, Network, RequestLimits};
use mailapi_service::Settings;
use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::values::{ByteSize, HumanDuration, Text, Unset};
use super::{ConfigError, at_least_one};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Http {
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Unset<String>,
    trusted_proxies: Vec<Text<Network>>,
    max_request_bytes: ByteSize,
    max_connections: usize,
    header_timeout: HumanDuration,
    body_pause: HumanDuration,
    body_timeout: HumanDuration,
    discard_timeout: HumanDuration,
    long_work_bytes: ByteSize,
    health_cache: HumanDuration,
    health_timeout: HumanDuration,
}

impl Default for Http {
    fn default() -> Self {
        let (http, service) = (HttpSettings::default(), Settings::default());
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            public_url: Unset(http.public_url),
            trusted_proxies: http.trusted_proxies.into_iter().map(Text).collect(),
            max_request_bytes: ByteSize(http.max_request_bytes as u64),
            max_connections: http.max_connections,
            header_timeout: HumanDuration(http.header_timeout),
            body_pause: HumanDuration(http.body_pause),
            body_timeout: HumanDuration(http.body_timeout),
            discard_timeout: HumanDuration(http.discard_timeout),
            long_work_bytes: ByteSize(http.long_work_bytes as u64),
            health_cache: HumanDuration(service.health_cache),
            health_timeout: HumanDuration(service.health_timeout),
        }
    }
}

impl Http {
    /// The settings of the HTTP side.
    pub(super) fn settings(&self, limits: &Limits, shutdown_grace: Duration) -> HttpSettings {
        HttpSettings {
            public_url: self.public_url.0.clone(),
            trusted_proxies: self.trusted_proxies.iter().map(|Text(network)| *network).collect(),
            max_request_bytes: self.max_request_bytes.as_usize(),
            limits: RequestLimits { per_minute: limits.requests_per_minute, per_hour: limits.requests_per_hour },
            header_timeout: self.header_timeout.0,
            body_pause: self.body_pause.0,
            body_timeout: self.body_timeout.0,
            discard_timeout: self.discard_timeout.0,
            long_work_bytes: self.long_work_bytes.as_usize(),
            max_connections: self.max_connections,
            shutdown_grace,
        }
    }

    /// Puts the section's settings into those of the service.
    pub(super) fn apply(&self, settings: &mut Settings) {
        settings.health_cache = self.health_cache.0;
        settings.health_timeout = self.health_timeout.0;
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("http.max_request_bytes", self.max_request_bytes.0)?;
        at_least_one("http.max_connections", self.max_connections as u64)?;
        let http = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if self.public_url.0.as_ref().is_some_and(|url| !http(url)) {
            return Err(ConfigError::new("http.public_url: must begin with http:// or https://"));
        }
        Ok(())
    }
}
