//! When a failed attempt is repeated.

use std::time::Duration;

use mailapi_model::Entropy;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// The waits after the first, second and further failed attempts, in seconds.
const WAITS: [u64; 10] =
    [5, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];

/// The number of attempts for one event; together they take about three days.
pub const ATTEMPTS: u32 = 11;

/// Returns the wait after this number of failed attempts, 20 % shorter to 20 % longer by chance; `None` after the last
/// attempt. Different waits spread the retries after an outage.
#[must_use]
pub fn wait_after(failed_attempts: u32, entropy: &dyn Entropy) -> Option<Duration> {
    const FEWEST_PER_MILLE: u32 = 800;
    const SPREAD_PER_MILLE: u32 = 401;
    let place = usize::try_from(failed_attempts).ok()?.checked_sub(1)?;
    let mut random = [0; 4];
    entropy.fill(&mut random);
    let per_mille = FEWEST_PER_MILLE + u32::from_le_bytes(random) % SPREAD_PER_MILLE;
    Some(Duration::from_millis(WAITS.get(place)? * u64::from(per_mille)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Fixed([u8; 4]);

    impl Entropy for Fixed {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.copy_from_slice(&self.0);
        }
    }

    #[test]
    fn the_last_attempt_is_not_repeated() {
        let waits: Vec<_> = (0..=ATTEMPTS + 1).map(|failed| wait_after(failed, &Fixed([0; 4]))).collect();
        assert_eq!((waits[0], waits[1]), (None, Some(Duration::from_secs(4))));
        assert_eq!(waits.iter().flatten().count(), ATTEMPTS as usize - 1);
        assert!(waits[ATTEMPTS as usize - 1].is_some() && waits[ATTEMPTS as usize].is_none());
        let days = waits.iter().flatten().sum::<Duration>().as_secs() / (24 * HOUR);
        assert!(days < 5, "all attempts fit into the time after which an endpoint is disabled");
    }

    proptest! {
        #[test]
        fn a_wait_differs_by_a_fifth_at_most(failed in 1..ATTEMPTS, random: [u8; 4]) {
            let wait = wait_after(failed, &Fixed(random)).unwrap().as_millis();
            let usual = u128::from(WAITS[failed as usize - 1]) * 1000;
            prop_assert!(wait * 10 >= usual * 8 && wait * 10 <= usual * 12, "{}", wait);
        }
    }
}
