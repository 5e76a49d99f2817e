//! `[mail]`: the mail server behind the API.

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::mail_embedded::Embedded;
use super::mail_external::External;

/// The section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Mail {
    pub(crate) backend: BackendName,
    pub(crate) embedded: Embedded,
    pub(crate) external: External,
}

/// Supported mail servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackendName {
    /// The built-in server.
    #[default]
    Embedded,
    /// The operator's own SMTP and IMAP servers.
    External,
}

impl Mail {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.backend {
            BackendName::Embedded => self.embedded.check(),
            BackendName::External => self.external.check(),
        }
    }
}
