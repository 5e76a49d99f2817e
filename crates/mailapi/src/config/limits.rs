//! `[limits]`: how often and how much.

use mailapi_http::RequestLimits;
use mailapi_service::Settings;
use serde::{Deserialize, Serialize};

use super::values::ByteSize;
use super::{ConfigError, at_least_one};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Limits {
    pub(super) requests_per_minute: u64,
    pub(super) requests_per_hour: u64,
    signups_per_hour: u32,
    max_recipients: usize,
    pub(super) max_message_bytes: ByteSize,
    max_headers: usize,
    max_header_bytes: ByteSize,
    max_attachments: usize,
    cached_callers: u64,
    cached_domains: u64,
    store: String,
}

/// The only place for counters that this version has: the process itself.
const MEMORY: &str = "memory";

impl Default for Limits {
    fn default() -> Self {
        let (defaults, requests) = (Settings::default(), RequestLimits::default());
        Self {
            requests_per_minute: requests.per_minute,
            requests_per_hour: requests.per_hour,
            signups_per_hour: defaults.signups_per_hour,
            max_recipients: defaults.draft.max_recipients,
            max_message_bytes: ByteSize(defaults.max_message_bytes as u64),
            max_headers: defaults.draft.max_headers,
            max_header_bytes: ByteSize(defaults.draft.max_header_octets as u64),
            max_attachments: defaults.draft.max_attachments,
            cached_callers: defaults.cached_callers,
            cached_domains: defaults.cached_domains,
            store: MEMORY.to_owned(),
        }
    }
}

impl Limits {
    /// Puts the section's settings into those of the service.
    pub(super) fn apply(&self, settings: &mut Settings) {
        settings.signups_per_hour = self.signups_per_hour;
        settings.draft.max_recipients = self.max_recipients;
        settings.draft.max_headers = self.max_headers;
        settings.draft.max_header_octets = self.max_header_bytes.as_usize();
        settings.draft.max_attachments = self.max_attachments;
        settings.max_message_bytes = self.max_message_bytes.as_usize();
        settings.cached_callers = self.cached_callers;
        settings.cached_domains = self.cached_domains;
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("limits.max_recipients", self.max_recipients as u64)?;
        at_least_one("limits.max_message_bytes", self.max_message_bytes.0)?;
        if self.store == MEMORY {
            return Ok(());
        }
        // An address may hold a password, so the message does not repeat it.
        Err(ConfigError::new(format!("limits.store: only \"{MEMORY}\" is in this version yet")))
    }
}
