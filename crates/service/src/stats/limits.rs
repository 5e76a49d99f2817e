//! How far statistics reach.

use std::time::Duration;

use mailapi_store::RollUpSize;

/// What an answer may ask for, and how counts are kept up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsLimits {
    /// How long before now a period begins that names no beginning. Default 7 days.
    pub default_period: Duration,
    /// The most days that a period touches. Default 3,660, ten years.
    pub max_days: u64,
    /// The most hours that are shown one by one. Default 8,784, a leap year.
    pub max_hours: u64,
    /// The most recipient domains that are shown one by one, the largest. Default 1,000.
    pub max_domains: usize,
    /// How many domains a ranking names. Default 10.
    pub ranked: usize,
    /// How much one roll-up takes on. Default 1,000 changes in 250 groups: that holds the writer for some
    /// milliseconds.
    pub roll_up: RollUpSize,
    /// The most events of mail from outside that wait in memory to be written down. Default 100,000.
    pub max_unwritten_inbound: usize,
    /// How long the roll-up rests when it has counted everything. Default 500 ms.
    pub roll_up_pause: Duration,
}

impl Default for StatsLimits {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            default_period: 7 * DAY,
            max_days: 3660,
            max_hours: 366 * 24,
            max_domains: 1000,
            ranked: 10,
            roll_up: RollUpSize { changes: 1000, groups: 250 },
            max_unwritten_inbound: 100_000,
            roll_up_pause: Duration::from_millis(500),
        }
    }
}
