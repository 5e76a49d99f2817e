//! A circuit breaker: while a server is down, requests fail at once instead of each waiting for a time-out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Counts failures to reach a server. After several in a row it rejects all attempts for a pause. Then it allows a
/// single probe, whose result applies to all callers.
pub(crate) struct Breaker {
    state: Mutex<State>,
    failures_until_pause: u32,
    first_pause: Duration,
    max_pause: Duration,
}

struct State {
    failures: u32,
    next_pause: Duration,
    paused: Option<Pause>,
}

struct Pause {
    until: Instant,
    reason: String,
    /// A probe is in progress.
    is_probed: bool,
}

/// Permission to connect. Dropping it without a result leaves the failure count unchanged.
pub(crate) struct Attempt<'a>(&'a Breaker);

impl Breaker {
    /// Creates a breaker that pauses for `first_pause` after this many consecutive failures. Each further failure
    /// doubles the pause, up to `max_pause`.
    pub(crate) fn new(failures_until_pause: u32, first_pause: Duration, max_pause: Duration) -> Self {
        let state = State { failures: 0, next_pause: first_pause, paused: None };
        Self { state: Mutex::new(state), failures_until_pause, first_pause, max_pause }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns permission to connect, or the reason for the current pause.
    pub(crate) fn attempt(&self) -> Result<Attempt<'_>, String> {
        let mut state = self.state();
        if let Some(pause) = &mut state.paused {
            if pause.is_probed || Instant::now() < pause.until {
                return Err(pause.reason.clone());
            }
            // Only one probe at a time: the others fail fast until its result is known.
            pause.is_probed = true;
        }
        Ok(Attempt(self))
    }

    /// Returns the reason for the current pause.
    pub(crate) fn pause_reason(&self) -> Option<String> {
        self.state().paused.as_ref().map(|pause| pause.reason.clone())
    }
}

impl Attempt<'_> {
    /// Records that the server works.
    pub(crate) fn succeeded(self) {
        let first_pause = self.0.first_pause;
        *self.0.state() = State { failures: 0, next_pause: first_pause, paused: None };
    }

    /// Records that the server was not reached.
    pub(crate) fn failed(self, reason: &str) {
        let mut state = self.0.state();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= self.0.failures_until_pause {
            let until = Instant::now() + state.next_pause;
            state.next_pause = (state.next_pause * 2).min(self.0.max_pause);
            state.paused = Some(Pause { until, reason: reason.to_owned(), is_probed: false });
        }
    }
}

impl Attempt<'_> {
    /// Records that the server was reached but rejected the login. Pauses at once, whatever the failure count: a prompt
    /// retry would only make the server slower.
    pub(crate) fn refused(self, pause: Duration, reason: &str) {
        let until = Instant::now() + pause;
        self.0.state().paused = Some(Pause { until, reason: reason.to_owned(), is_probed: false });
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        // A dropped probe has no result, so the next caller may probe.
        if let Some(pause) = &mut self.0.state().paused {
            pause.is_probed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> Breaker {
        Breaker::new(2, Duration::from_secs(1), Duration::from_secs(3))
    }

    fn fail(breaker: &Breaker) {
        breaker.attempt().expect("a permission").failed("down");
    }

    #[tokio::test(start_paused = true)]
    async fn after_some_failures_no_attempt_is_made() {
        let breaker = breaker();
        fail(&breaker);
        fail(&breaker);
        assert_eq!(breaker.attempt().err().as_deref(), Some("down"));
        assert_eq!(breaker.pause_reason().as_deref(), Some("down"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_tries_for_all_and_each_failure_doubles_the_pause() {
        let breaker = breaker();
        fail(&breaker);
        fail(&breaker);
        for seconds in [1, 2, 3, 3] {
            tokio::time::advance(Duration::from_millis(seconds * 1000 - 1)).await;
            assert!(breaker.attempt().is_err());
            tokio::time::advance(Duration::from_millis(1)).await;
            let probe = breaker.attempt().expect("a probe");
            assert!(breaker.attempt().is_err(), "a second probe");
            probe.failed("down");
        }
        tokio::time::advance(Duration::from_secs(3)).await;
        drop(breaker.attempt().expect("a probe that is given up"));
        breaker.attempt().expect("another probe").succeeded();
        fail(&breaker);
        assert!(breaker.attempt().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_at_once() {
        let breaker = breaker();
        breaker.attempt().unwrap().refused(Duration::from_secs(60), "wrong password");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(breaker.attempt().err().as_deref(), Some("wrong password"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(breaker.attempt().is_ok());
    }
}
