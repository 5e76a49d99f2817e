//! `[security]`: looking for signs of fraud.

use mailapi_service::Settings;
use serde::{Deserialize, Serialize};

/// The section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Security {
    /// Whether messages can be analyzed.
    analysis: bool,
}

impl Security {
    pub(super) const fn apply(&self, settings: &mut Settings) {
        settings.security_analysis = self.analysis;
    }
}
