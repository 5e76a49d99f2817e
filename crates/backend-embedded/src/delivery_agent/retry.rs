//! Schedules retries.

use mailapi_model::{Entropy, Timestamp};

use super::DeliveryAgentSettings;

/// Returns the time of the next attempt, after `attempts` earlier attempts and a failed one. The last attempt
/// is at the message's expiry; `None` if that has passed.
pub(super) fn next_attempt(
    settings: &DeliveryAgentSettings,
    entropy: &dyn Entropy,
    attempts: u32,
    now: Timestamp,
    expires_at: Timestamp,
) -> Option<Timestamp> {
    if now >= expires_at {
        return None;
    }
    let intervals = &settings.retry_intervals;
    let index = usize::try_from(attempts).unwrap_or(usize::MAX);
    let interval = intervals.get(index).or(intervals.last()).copied().unwrap_or(settings.failure_pause);
    let shortened = interval.mul_f64(1.0 - share(entropy) * f64::from(settings.retry_jitter_percent.min(100)) / 100.0);
    Some(now.plus(shortened).min(expires_at))
}

/// Returns a uniformly distributed number between 0 and 1.
fn share(entropy: &dyn Entropy) -> f64 {
    let mut bytes = [0; 4];
    entropy.fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mailapi_testkit::SeededEntropy;

    use super::*;

    #[test]
    fn waits_grow_and_end_with_the_message() {
        let settings = DeliveryAgentSettings::default();
        let start = Timestamp::from_seconds(0);
        let expires_at = start.plus(Duration::from_secs(5 * 24 * 3600));
        let entropy = SeededEntropy::new(7);
        for (attempts, minutes) in [(0, 5), (1, 10), (4, 60), (6, 240), (100, 240)] {
            let wait = next_attempt(&settings, &entropy, attempts, start, expires_at).unwrap().since(start);
            let longest = Duration::from_secs(minutes * 60);
            assert!(wait <= longest && wait >= longest.mul_f64(0.9), "{attempts}: {wait:?}");
        }
        let late = expires_at.minus(Duration::from_secs(1));
        assert_eq!(next_attempt(&settings, &entropy, 9, late, expires_at), Some(expires_at));
        assert_eq!(next_attempt(&settings, &entropy, 9, expires_at, expires_at), None);
    }
}
