//! `[events]`: the log of events.

use mailapi_service::Settings;
use serde::{Deserialize, Serialize};

use super::values::HumanDuration;
use super::{ConfigError, longer_than_nothing};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Events {
    /// Age at which an event is deleted.
    pub(crate) retention: HumanDuration,
}

impl Default for Events {
    fn default() -> Self {
        Self { retention: HumanDuration(Settings::default().event_retention) }
    }
}

impl Events {
    pub(super) fn apply(&self, settings: &mut Settings) {
        settings.event_retention = self.retention.0;
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        longer_than_nothing("events.retention", self.retention)
    }
}
