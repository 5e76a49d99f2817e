//! `[stats]`: how far statistics reach, and how they are kept up to date.

use mailapi_service::stats::{RollUpSize, StatsLimits};

use super::mirror::mirror;
use super::values::HumanDuration;
use super::{ConfigError, at_least_one};

mirror!(
    /// The section.
    Stats of StatsLimits {
        default_period: HumanDuration,
        max_days: u64,
        max_hours: u64,
        max_domains: usize,
        ranked: usize,
        max_unwritten_inbound: usize,
        roll_up_pause: HumanDuration,
    } with {
        roll_up_changes: usize = StatsLimits::default().roll_up.changes,
        roll_up_groups: usize = StatsLimits::default().roll_up.groups,
    }
);

impl Stats {
    /// How far statistics reach.
    pub(super) fn limits(&self) -> StatsLimits {
        let mut limits = StatsLimits::default();
        self.apply(&mut limits);
        limits.roll_up = RollUpSize { changes: self.roll_up_changes, groups: self.roll_up_groups };
        limits
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("stats.max_days", self.max_days)?;
        at_least_one("stats.max_hours", self.max_hours)?;
        at_least_one("stats.roll_up_changes", self.roll_up_changes as u64)?;
        at_least_one("stats.roll_up_groups", self.roll_up_groups as u64)?;
        if self.roll_up_pause.0.is_zero() {
            return Err(ConfigError::new("stats.roll_up_pause: must be longer than nothing"));
        }
        Ok(())
    }
}
