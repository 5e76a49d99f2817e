//! Leaves a server alone that does not answer, so that requests fail at once instead of after a time-out each.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::settings::ImapSettings;

/// Counts failures to reach the server. After some in a row nobody may try for a while; then one may, and what
/// becomes of that decides for the others.
pub(super) struct Breaker {
    state: Mutex<State>,
    failures_until_pause: u32,
    first_pause: Duration,
    max_pause: Duration,
    refused_pause: Duration,
}

struct State {
    failures: u32,
    next_pause: Duration,
    paused: Option<Pause>,
}

struct Pause {
    until: Instant,
    reason: String,
    /// Somebody tries whether the server is back.
    is_probed: bool,
}

/// The permission to try. What is dropped without a verdict says nothing about the server.
pub(super) struct Attempt<'a>(&'a Breaker);

impl Breaker {
    pub(super) fn new(settings: &ImapSettings) -> Self {
        Self {
            state: Mutex::new(State { failures: 0, next_pause: settings.pause, paused: None }),
            failures_until_pause: settings.failures_until_pause,
            first_pause: settings.pause,
            max_pause: settings.max_pause,
            refused_pause: settings.refused_pause,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for permission; otherwise why the server is left alone.
    pub(super) fn attempt(&self) -> Result<Attempt<'_>, String> {
        let mut state = self.state();
        if let Some(pause) = &mut state.paused {
            if pause.is_probed || Instant::now() < pause.until {
                return Err(pause.reason.clone());
            }
            pause.is_probed = true;
        }
        Ok(Attempt(self))
    }

    /// Why the server is left alone at the moment.
    pub(super) fn pause_reason(&self) -> Option<String> {
        self.state().paused.as_ref().map(|pause| pause.reason.clone())
    }
}

impl Attempt<'_> {
    /// The server works.
    pub(super) fn succeeded(self) {
        let mut state = self.0.state();
        *state = State { failures: 0, next_pause: self.0.first_pause, paused: None };
    }

    /// The server was not reached.
    pub(super) fn failed(self, reason: &str) {
        let breaker = self.0;
        let mut state = breaker.state();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= breaker.failures_until_pause {
            let length = state.next_pause;
            state.next_pause = (length * 2).min(breaker.max_pause);
            state.pause(length, reason);
        }
    }

    /// The server was reached and does not let the master user in: to try again soon only makes it slower.
    pub(super) fn refused(self, reason: &str) {
        self.0.state().pause(self.0.refused_pause, reason);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(pause) = &mut self.0.state().paused {
            pause.is_probed = false;
        }
    }
}

impl State {
    fn pause(&mut self, length: Duration, reason: &str) {
        self.paused = Some(Pause { until: Instant::now() + length, reason: reason.to_owned(), is_probed: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailapi_model::Secret;

    fn breaker() -> Breaker {
        let settings = ImapSettings::new("localhost", 143, "api", Secret::new(String::new()));
        Breaker::new(&ImapSettings { failures_until_pause: 2, max_pause: Duration::from_secs(3), ..settings })
    }

    fn fail(breaker: &Breaker) {
        breaker.attempt().expect("a permission").failed("down");
    }

    #[tokio::test(start_paused = true)]
    async fn after_some_failures_nobody_may_try() {
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
    async fn a_refused_master_is_not_tried_again_soon() {
        let breaker = breaker();
        breaker.attempt().unwrap().refused("wrong password");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(breaker.attempt().err().as_deref(), Some("wrong password"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(breaker.attempt().is_ok());
    }
}
