//! Delays between an answer to a client and the arrival of its event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::load::Sample;
use crate::outcome::{Failure, Outcome};

/// Maximum time until the last event arrives, and the interval of checking.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);

/// When things with a key happened.
#[derive(Debug, Clone, Default)]
pub(super) struct Moments(Arc<Mutex<HashMap<String, Instant>>>);

impl Moments {
    /// Notes the first time of a key.
    pub(super) fn note(&self, key: &str, at: Instant) {
        self.with(|moments| {
            moments.entry(key.to_owned()).or_insert(at);
        });
    }

    pub(super) fn count(&self) -> usize {
        self.with(|moments| moments.len())
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, Instant>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until each key of `answered` has arrived. Returns the delays, ascending; an event that arrived before the
    /// answer has none.
    pub(super) async fn delays_after(&self, answered: &Self) -> Outcome<Sample> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let missing = answered.with(|answered| self.with(|seen| missing(answered, seen)));
            if missing == 0 {
                break;
            }
            if Instant::now() > give_up {
                return Err(Failure::new(format!("{missing} of {} events did not arrive", answered.count())));
            }
            tokio::time::sleep(LOOK).await;
        }
        let mut latencies = answered.with(|answered| self.with(|seen| delays(answered, seen)));
        latencies.sort_unstable();
        Ok(Sample { latencies, ..Sample::default() })
    }
}

fn missing(answered: &HashMap<String, Instant>, seen: &HashMap<String, Instant>) -> usize {
    answered.keys().filter(|key| !seen.contains_key(*key)).count()
}

fn delays(answered: &HashMap<String, Instant>, seen: &HashMap<String, Instant>) -> Vec<Duration> {
    let delay = |(key, at): (&String, &Instant)| seen.get(key).map(|seen| seen.saturating_duration_since(*at));
    answered.iter().filter_map(delay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_delay_is_the_time_from_the_answer_to_the_first_arrival() {
        let (answered, seen, start) = (Moments::default(), Moments::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        for (key, answer, arrivals) in [("a", 10, [15, 99]), ("b", 10, [8, 9])] {
            answered.note(key, after(answer));
            arrivals.into_iter().for_each(|arrival| seen.note(key, after(arrival)));
        }
        seen.note("of another client", after(1));
        let delays = seen.delays_after(&answered).await.unwrap().latencies;
        assert_eq!(delays, [Duration::ZERO, Duration::from_millis(5)]);
    }
}
