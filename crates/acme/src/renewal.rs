//! When to order a certificate.

use std::time::Duration;

use mailapi_model::Entropy;
use mailapi_tls::Validity;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Time between two questions to an authority that names none (RFC 9773 section 4.3.2).
const ASK_EVERY: i64 = 6 * HOUR;
/// Pause after the first failure. It doubles with each one: authorities allow few failed checks in an hour.
pub(crate) const FIRST_PAUSE: i64 = 5 * MINUTE;
/// Longest pause after a failure. A renewal begins weeks before the end, so many attempts remain.
const LONGEST_PAUSE: i64 = 6 * HOUR;

/// Shortest time between two orders, unless certificates live less than twice as long.
const LEAST_USE: i64 = 6 * HOUR;
/// Shortest time between two orders however short certificates live. Only private authorities issue such certificates.
const SHORTEST_USE: i64 = 10;

/// What the authority advises about a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suggestion {
    /// When to renew; `None` without advice.
    renew_at: Option<i64>,
    /// When to ask again.
    pub(crate) ask_again_at: i64,
}

impl Suggestion {
    /// Chooses a time in the window, so that the clients of the authority come one by one (RFC 9773 section 4.2).
    pub(crate) fn new((start, end): (i64, i64), now: i64, ask_again_in: Duration, entropy: &dyn Entropy) -> Self {
        let renew_at = if end > start { start + between_zero_and(end - start, entropy) } else { start };
        let pause = i64::try_from(ask_again_in.as_secs()).unwrap_or(i64::MAX);
        Self { renew_at: Some(renew_at), ask_again_at: now + pause.clamp(MINUTE, DAY) }
    }

    /// The authority gives no advice.
    pub(crate) const fn none(now: i64) -> Self {
        Self { renew_at: None, ask_again_at: now + ASK_EVERY }
    }

    pub(crate) const fn is_advised(&self) -> bool {
        self.renew_at.is_some()
    }
}

/// Returns when to renew a certificate: when the authority advises, and otherwise after two thirds of the lifetime. No
/// advice counts after nine tenths, which leaves time for failures.
pub(crate) fn due_at(validity: Validity, suggestion: Option<&Suggestion>) -> i64 {
    let Validity { begins_at, expires_at } = validity;
    let lifetime = expires_at.saturating_sub(begins_at);
    let advised = suggestion.and_then(|suggestion| suggestion.renew_at);
    advised.unwrap_or(begins_at + lifetime / 3 * 2).min(expires_at - lifetime / 10)
}

/// Returns for how many seconds a new certificate is used at least, even if it counts as due at once.
pub(crate) fn shortest_use(validity: Option<Validity>) -> i64 {
    let lifetime = validity.map_or(i64::MAX, |validity| validity.expires_at.saturating_sub(validity.begins_at));
    // The authority is at fault, so another order soon would not help.
    if lifetime <= 0 {
        return FIRST_PAUSE;
    }
    (lifetime / 2).clamp(SHORTEST_USE, LEAST_USE)
}

/// Returns the seconds between a failure and the next attempt: 5 minutes, doubled for each failure before, up to 6 hours,
/// and a fifth more or less.
pub(crate) fn pause_after(failures: u32, entropy: &dyn Entropy) -> i64 {
    let doubled = failures.saturating_sub(1).min(10);
    let pause = (FIRST_PAUSE << doubled).min(LONGEST_PAUSE);
    pause - pause / 5 + between_zero_and(pause / 5 * 2, entropy)
}

/// Returns the time until then, at least a second. It is at most some hours, because timers do not count the time in
/// which a machine sleeps.
pub(crate) fn pause(now: i64, then: i64) -> Duration {
    let seconds = then.saturating_sub(now).clamp(1, ASK_EVERY);
    Duration::from_secs(seconds.unsigned_abs())
}

fn between_zero_and(most: i64, entropy: &dyn Entropy) -> i64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    i64::try_from(u64::from_le_bytes(bytes) % (most.unsigned_abs() + 1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Fixed(u64);
    impl Entropy for Fixed {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.copy_from_slice(&self.0.to_le_bytes()[..buffer.len()]);
        }
    }

    /// Ninety days.
    const VALIDITY: Validity = Validity { begins_at: 0, expires_at: 90 * DAY };

    #[test]
    fn two_thirds_of_the_lifetime_without_advice() {
        assert_eq!(due_at(VALIDITY, None), 60 * DAY);
        assert_eq!(due_at(VALIDITY, Some(&Suggestion::none(0))), 60 * DAY);
    }

    #[test]
    fn advice_is_followed_while_time_is_left() {
        let advised = |start, end| {
            let suggestion = Suggestion::new((start, end), 0, Duration::ZERO, &Fixed(u64::MAX));
            due_at(VALIDITY, Some(&suggestion))
        };
        assert_eq!(advised(70 * DAY, 70 * DAY), 70 * DAY);
        assert_eq!(advised(-DAY, -DAY), -DAY, "at once, because the authority revokes it");
        assert!((50 * DAY..=52 * DAY).contains(&advised(50 * DAY, 52 * DAY)));
        assert_eq!(advised(200 * DAY, 300 * DAY), 81 * DAY);
        assert_eq!(advised(5, 3), 5, "a window that ends before it begins");
    }

    #[test]
    fn a_new_certificate_is_used_for_some_hours() {
        let of = |lifetime| shortest_use(Some(Validity { begins_at: 1_000, expires_at: 1_000 + lifetime }));
        assert_eq!([90 * DAY, HOUR, 30, 1, -DAY].map(of), [6 * HOUR, HOUR / 2, 15, SHORTEST_USE, FIRST_PAUSE]);
        assert_eq!(shortest_use(None), 6 * HOUR);
    }

    #[test]
    fn the_authority_is_not_asked_all_the_time() {
        for (seconds, at) in [(0, 1_060), (3_600, 4_600), (u64::MAX, 1_000 + DAY)] {
            let suggestion = Suggestion::new((0, 0), 1_000, Duration::from_secs(seconds), &Fixed(0));
            assert_eq!(suggestion.ask_again_at, at);
        }
    }

    #[test]
    fn pauses_double_up_to_six_hours() {
        // Half of the random part: neither more nor less.
        let pause = |failures: u32| {
            let exact = (FIRST_PAUSE << (failures - 1)).min(LONGEST_PAUSE);
            pause_after(failures, &Fixed((exact / 5).unsigned_abs()))
        };
        assert_eq!([1, 2, 3, 4].map(pause), [5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 40 * MINUTE]);
        assert_eq!(pause(9), LONGEST_PAUSE);
    }

    proptest! {
        #[test]
        fn every_pause_ends(failures: u32, random: u64, now in -DAY..400 * DAY, then: i64) {
            let after = pause_after(failures, &Fixed(random));
            prop_assert!((FIRST_PAUSE * 4 / 5..=LONGEST_PAUSE * 6 / 5).contains(&after));
            let wait = pause(now, then);
            prop_assert!(wait >= Duration::from_secs(1) && wait <= Duration::from_secs(6 * 60 * 60));
        }
    }
}
