//! `[mail]`: which mail server is behind the API.

use mailapi_service::Settings;
use serde::{Deserialize, Serialize};

use super::mail_embedded::Embedded;
use super::mail_external::External;
use super::values::HumanDuration;
use super::{ConfigError, at_least_one};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Mail {
    backend: BackendName,
    idempotency_lifetime: HumanDuration,
    pub(crate) pending_grace: HumanDuration,
    pub(super) feed_batch: usize,
    pub(crate) embedded: Embedded,
    external: External,
}

/// The mail servers that can be behind the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BackendName {
    /// The one built in.
    Embedded,
    /// Servers of their own for submission and reading.
    External,
}

impl Default for Mail {
    fn default() -> Self {
        let defaults = Settings::default();
        Self {
            backend: BackendName::Embedded,
            idempotency_lifetime: HumanDuration(defaults.idempotency_lifetime),
            pending_grace: HumanDuration(defaults.pending_grace),
            feed_batch: defaults.feed_batch,
            embedded: Embedded::default(),
            external: External::default(),
        }
    }
}

impl Mail {
    /// Puts the section's settings into those of the service.
    pub(super) fn apply(&self, settings: &mut Settings) {
        settings.idempotency_lifetime = self.idempotency_lifetime.0;
        settings.pending_grace = self.pending_grace.0;
        settings.feed_batch = self.feed_batch;
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("mail.feed_batch", self.feed_batch as u64)?;
        match self.backend {
            BackendName::Embedded => self.embedded.check(),
            BackendName::External => {
                Err(ConfigError::new("mail.backend: \"external\" is not in this version yet; use \"embedded\""))
            }
        }
    }
}
