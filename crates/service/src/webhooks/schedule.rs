//! When each webhook has its next round.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use mailapi_model::{Timestamp, WebhookId};

use super::plan::is_over;

/// The webhooks that wait for a time. Those without work are not in it.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    due: BTreeSet<(Timestamp, WebhookId)>,
    times: HashMap<WebhookId, Timestamp>,
}

impl Schedule {
    /// Schedules a webhook, which has one time at most. `None` removes it.
    pub(super) fn set(&mut self, webhook: WebhookId, at: Option<Timestamp>) {
        let former = match at {
            Some(at) => self.times.insert(webhook, at),
            None => self.times.remove(&webhook),
        };
        if let Some(former) = former {
            self.due.remove(&(former, webhook));
        }
        self.due.extend(at.map(|at| (at, webhook)));
    }

    /// Removes and returns the webhooks that are due. Times of a clock that was set back since are due too.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<WebhookId> {
        let mut due = Vec::new();
        loop {
            let ends = [self.due.first(), self.due.last()];
            let over = ends.into_iter().flatten().copied().find(|(at, _)| is_over(*at, None, now));
            let Some((_, webhook)) = over else { return due };
            self.set(webhook, None);
            due.push(webhook);
        }
    }

    /// Returns the time until the next webhook is due.
    pub(super) fn rest(&self, now: Timestamp) -> Option<Duration> {
        self.due.first().map(|(at, _)| at.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn a_webhook_is_due_once_at_its_latest_time() {
        let mut schedule = Schedule::default();
        for (webhook, time) in [(1, Some(20)), (2, Some(10)), (1, Some(5)), (3, Some(7)), (3, None)] {
            schedule.set(WebhookId(webhook), time.map(at));
        }
        assert_eq!(schedule.rest(at(1)), Some(Duration::from_secs(4)));
        assert_eq!(schedule.take_due(at(4)), []);
        assert_eq!(schedule.take_due(at(10)), [WebhookId(1), WebhookId(2)]);
        assert_eq!((schedule.take_due(at(99)), schedule.rest(at(99))), (Vec::new(), None));
    }

    #[test]
    fn a_clock_that_was_set_back_delays_nothing() {
        let mut schedule = Schedule::default();
        schedule.set(WebhookId(1), Some(at(100)));
        schedule.set(WebhookId(2), Some(at(1_000_000)));
        schedule.set(WebhookId(3), Some(at(2_000_000)));
        assert_eq!(schedule.take_due(at(10)), [WebhookId(3), WebhookId(2)]);
        assert_eq!(schedule.take_due(at(100)), [WebhookId(1)]);
    }
}
