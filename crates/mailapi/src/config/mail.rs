//! `[mail]`: which mail server is behind the API.

use mailapi_service::Settings;
use serde::{Deserialize, Serialize};

use super::mail_embedded::Embedded;
use super::mail_external::External;
use super::mirror::mirror;
use super::values::HumanDuration;
use super::{ConfigError, at_least_one, longer_than_nothing};

mirror!(
    /// The section.
    Mail of Settings {
        idempotency_lifetime: HumanDuration,
        idempotency_wait: HumanDuration,
        pending_grace: HumanDuration,
        bounce_lifetime: HumanDuration,
        bounce_members: usize,
        feed_batch: usize,
        quota_patience: HumanDuration,
    } with {
        backend: BackendName = BackendName::Embedded,
        embedded: Embedded = Embedded::default(),
        external: External = External::default(),
    }
);

/// The mail servers that can be behind the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackendName {
    /// The one built in.
    Embedded,
    /// Servers of their own for submission and reading.
    External,
}

impl Mail {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("mail.feed_batch", self.feed_batch as u64)?;
        longer_than_nothing("mail.quota_patience", self.quota_patience)?;
        match self.backend {
            BackendName::Embedded => self.embedded.check(),
            BackendName::External => self.external.check(),
        }
    }
}
