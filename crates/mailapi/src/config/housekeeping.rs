//! `[housekeeping]`: how often the server looks after what nobody asks for.

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::values::HumanDuration;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Housekeeping {
    /// Between two writings of when tokens were last used.
    pub(crate) last_used_interval: HumanDuration,
    /// Between two looks at messages whose handing-over was interrupted.
    pub(crate) recovery_interval: HumanDuration,
    /// Between two removals of what need not be kept any longer.
    pub(crate) tidy_interval: HumanDuration,
    /// How long a loop that failed waits before it tries again.
    pub(crate) retry_pause: HumanDuration,
}

impl Default for Housekeeping {
    fn default() -> Self {
        let seconds = |seconds| HumanDuration(std::time::Duration::from_secs(seconds));
        Self {
            last_used_interval: seconds(10),
            recovery_interval: seconds(60),
            tidy_interval: seconds(600),
            retry_pause: seconds(1),
        }
    }
}

impl Housekeeping {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, HumanDuration(interval)) in [
            ("last_used_interval", self.last_used_interval),
            ("recovery_interval", self.recovery_interval),
            ("tidy_interval", self.tidy_interval),
            ("retry_pause", self.retry_pause),
        ] {
            if interval.is_zero() {
                return Err(ConfigError::new(format!("housekeeping.{key}: must be longer than nothing")));
            }
        }
        Ok(())
    }
}
