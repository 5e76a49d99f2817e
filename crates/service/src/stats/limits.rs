//! Limits of statistics.

use std::time::Duration;

use mailapi_store::RollUpSize;

/// Limits of queries, and settings of the roll-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsLimits {
    /// Length of a period without a start, up to now. Default 7 days.
    pub default_period: Duration,
    /// Maximum number of days in a period. Default 3,660, ten years.
    pub max_days: u64,
    /// Maximum number of hourly buckets. Default 8,784, a leap year.
    pub max_hours: u64,
    /// Maximum number of recipient domains in a breakdown; the largest are returned. Default 1,000.
    pub max_domains: usize,
    /// Number of domains in a ranking. Default 10.
    pub ranked: usize,
    /// Size of one roll-up. Default 1,000 changes in 250 groups, which occupies the writer for some milliseconds.
    pub roll_up: RollUpSize,
    /// Maximum number of events of mail from outside that wait in memory. Default 100,000.
    pub max_unwritten_inbound: usize,
    /// Pause of the roll-up after it has counted everything. Default 500 ms.
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
