//! `[http]`: where the API listens, and what it takes in.

use std::net::SocketAddr;
use std::time::Duration;

use mailapi_http::{HttpSettings, Network, RequestLimits};
use mailapi_service::Settings;

use super::limits::Limits;
use super::mirror::mirror;
use super::values::{ByteSize, HumanDuration, ListenAddress, Text, Unset};
use super::{ConfigError, at_least_one};

mirror!(
    /// The section.
    Http of HttpSettings {
        max_request_bytes: ByteSize,
        max_small_request_bytes: ByteSize,
        max_request_bytes_in_flight: ByteSize,
        max_connections: usize,
        header_timeout: HumanDuration,
        body_pause: HumanDuration,
        body_timeout: HumanDuration,
        discard_timeout: HumanDuration,
        discard_bytes: ByteSize,
        long_work_bytes: ByteSize,
        long_string_bytes: ByteSize,
        kept_page_bytes: ByteSize,
    } with {
        listen: ListenAddress = ListenAddress(SocketAddr::from(([127, 0, 0, 1], 8080))),
        public_url: Unset<String> = Unset(None),
        trusted_proxies: Vec<Text<Network>> = Vec::new(),
        health_cache: HumanDuration = HumanDuration(Settings::default().health_cache),
        health_timeout: HumanDuration = HumanDuration(Settings::default().health_timeout),
    }
);

impl Http {
    /// The settings of the HTTP side.
    pub(super) fn settings(&self, limits: &Limits, shutdown_grace: Duration) -> HttpSettings {
        let mut settings = HttpSettings::default();
        self.apply(&mut settings);
        settings.public_url.clone_from(&self.public_url.0);
        settings.trusted_proxies = self.trusted_proxies.iter().map(|Text(network)| *network).collect();
        settings.limits = RequestLimits { per_minute: limits.requests_per_minute, per_hour: limits.requests_per_hour };
        settings.shutdown_grace = shutdown_grace;
        settings
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("http.max_request_bytes", self.max_request_bytes.0)?;
        at_least_one("http.max_connections", self.max_connections as u64)?;
        let least = HttpSettings::LEAST_LONG_STRING_BYTES;
        if self.long_string_bytes.0 < least as u64 {
            let why = "a shorter string may be the name of a member";
            return Err(ConfigError::new(format!("http.long_string_bytes: must be at least {least}: {why}")));
        }
        let http = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if self.public_url.0.as_ref().is_some_and(|url| !http(url)) {
            return Err(ConfigError::new("http.public_url: must begin with http:// or https://"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn no_name_of_a_member_can_be_a_long_string() {
        let with = |length: u64| {
            let text = format!("[http]\nlong_string_bytes = {length}\n");
            Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap().check()
        };
        assert!(with(511).unwrap_err().to_string().contains("http.long_string_bytes: must be at least 512"));
        with(512).unwrap();
    }
}
