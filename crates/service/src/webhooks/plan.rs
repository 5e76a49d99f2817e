//! Which events of a webhook are sent now, and in which order: pure.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use mailapi_model::{MessageId, Timestamp};
use mailapi_store::{StoredEvent, WebhookFailure};

/// Maximum number of events that are sent in one round.
pub(super) const WINDOW: usize = 64;
/// With this number of events to try again, no new ones are read: they stay in the log.
pub(super) const MOST_OPEN: usize = 1000;
/// No wait is longer: a day, and a fifth of it by chance.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 60 * 60);

/// An attempt that is later than now by more than this was made by a clock that was set back since. The clocks of nodes
/// differ by less: receivers refuse the messages of a clock that is wrong by five minutes.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// An event to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Work {
    /// Its state: that of an earlier attempt, or a fresh one.
    pub(super) event: WebhookFailure,
    /// Its body; `None` if it must be read again.
    pub(super) body: Option<std::sync::Arc<str>>,
    /// Whether it has a row from an earlier round.
    pub(super) is_stored: bool,
}

/// What to do in one round.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Events to send. Those of one message are in one group, in their order; groups are independent.
    pub(super) groups: Vec<Vec<Work>>,
    /// New events that wait behind earlier ones of their messages.
    pub(super) waiting: Vec<WebhookFailure>,
    /// When the next of the other events is tried again.
    pub(super) next_try: Option<Timestamp>,
}

/// Events with the same key are sent in their order: the events of one message, or a single event.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Message(MessageId),
    Event(u64),
}

impl Key {
    fn of(event: &WebhookFailure) -> Self {
        event.message_id.map_or(Self::Event(event.number), Self::Message)
    }
}

impl Plan {
    /// Plans a round. `open` are the events that are tried again, and `new` those after them, both in their order.
    pub(super) fn new(open: Vec<WebhookFailure>, new: Vec<StoredEvent>, now: Timestamp) -> Self {
        let mut plan = Self::default();
        // The place of each message's group; `None` if its first event is not due.
        let mut groups: HashMap<Key, Option<usize>> = HashMap::new();
        let mut planned = 0;
        let known: HashSet<u64> = open.iter().map(|event| event.number).collect();
        for event in open {
            let due = due(&event, now);
            let group = *groups.entry(Key::of(&event)).or_insert_with(|| {
                let starts = due <= now && planned < WINDOW;
                if !starts {
                    plan.next_try = earlier(plan.next_try, due);
                }
                starts.then(|| {
                    plan.groups.push(Vec::new());
                    plan.groups.len() - 1
                })
            });
            if let Some(group) = group {
                planned += 1;
                plan.groups[group].push(Work { event, body: None, is_stored: true });
            }
        }
        let mut fresh: HashMap<Key, usize> = HashMap::new();
        // After a replay, events that are tried again are also among the new ones.
        for event in new.into_iter().filter(|event| !known.contains(&event.number)) {
            let state = unsent(&event, now);
            let key = Key::of(&state);
            if groups.contains_key(&key) {
                plan.waiting.push(state);
                continue;
            }
            let group = *fresh.entry(key).or_insert_with(|| {
                plan.groups.push(Vec::new());
                plan.groups.len() - 1
            });
            plan.groups[group].push(Work { event: state, body: Some(event.body), is_stored: false });
        }
        plan
    }
}

/// Returns when an event is due. An event without an attempt waits only for earlier events of its message.
fn due(event: &WebhookFailure, now: Timestamp) -> Timestamp {
    let until = event.next_try_at.unwrap_or(now);
    let last = event.last.as_ref().map(|last| last.at);
    if last.is_none() || is_over(until, last, now) { until.min(now) } else { until }
}

/// Returns whether a wait is over that began with an attempt at `since`. A clock that was set back since ends it too.
pub(super) fn is_over(until: Timestamp, since: Option<Timestamp>, now: Timestamp) -> bool {
    let is_set_back = since.is_some_and(|since| since.since(now) > SKEW);
    until <= now || until.since(now) > LONGEST_WAIT || is_set_back
}

pub(super) fn earlier(one: Option<Timestamp>, other: Timestamp) -> Option<Timestamp> {
    Some(one.map_or(other, |one| one.min(other)))
}

/// Returns the state of an event without an attempt.
fn unsent(event: &StoredEvent, now: Timestamp) -> WebhookFailure {
    WebhookFailure {
        number: event.number,
        event_id: event.id,
        event_type: event.event_type,
        message_id: event.message_id,
        attempts: 0,
        next_try_at: Some(now),
        last: None,
    }
}

#[cfg(test)]
mod tests {
    use mailapi_events::{EventId, EventType};
    use mailapi_store::FailedAttempt;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn message(number: u8) -> Option<MessageId> {
        Some(format!("67e55044-10b1-426f-9247-bb680e5fe0{number:02x}").parse().unwrap())
    }

    fn open(number: u64, of: Option<MessageId>, next: i64) -> WebhookFailure {
        let event_id = EventId::of_fact(at(0), &[&number.to_be_bytes()]);
        let event_type = EventType::MessageDelivered;
        WebhookFailure {
            number,
            event_id,
            event_type,
            message_id: of,
            attempts: 1,
            next_try_at: Some(at(next)),
            last: Some(FailedAttempt { at: at(0), status: Some(500), error: None, answer: None }),
        }
    }

    fn new(number: u64, of: Option<MessageId>) -> StoredEvent {
        let WebhookFailure { event_id: id, event_type, message_id, .. } = open(number, of, 0);
        let (domain, mailbox) = (None, None);
        StoredEvent {
            number,
            id,
            event_type,
            at: at(0),
            domain,
            mailbox,
            message_id,
            subject_at: at(0),
            body: "{}".into(),
        }
    }

    fn numbers(plan: &Plan) -> Vec<Vec<u64>> {
        plan.groups.iter().map(|group| group.iter().map(|work| work.event.number).collect()).collect()
    }

    #[test]
    fn an_event_waits_behind_the_earlier_ones_of_its_message() {
        let plan = Plan::new(
            vec![open(1, message(1), 50), open(2, message(1), 0), open(3, message(2), 5)],
            vec![new(4, message(1)), new(5, message(2)), new(6, message(3)), new(7, message(3)), new(8, None)],
            at(10),
        );
        assert_eq!(numbers(&plan), [vec![3], vec![6, 7], vec![8]]);
        assert_eq!(plan.waiting.iter().map(|event| event.number).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(plan.next_try, Some(at(50)), "the first event of message 1 leads");
    }

    #[test]
    fn an_event_that_is_due_takes_the_waiting_ones_along() {
        let plan =
            Plan::new(vec![open(1, message(1), 10), open(2, message(1), 99), open(3, None, 11)], Vec::new(), at(10));
        assert_eq!((numbers(&plan), plan.next_try), (vec![vec![1, 2]], Some(at(11))));
        assert!(plan.groups[0].iter().all(|work| work.is_stored && work.body.is_none()));
    }

    #[test]
    fn an_event_that_is_tried_again_is_not_new() {
        let plan = Plan::new(vec![open(1, message(1), 0)], vec![new(1, message(1)), new(2, message(2))], at(10));
        assert_eq!((numbers(&plan), plan.waiting), (vec![vec![1], vec![2]], Vec::new()));
        assert!(plan.groups[0][0].is_stored);
    }

    #[test]
    fn a_clock_that_was_set_back_delays_nothing() {
        let day = 24 * 60 * 60;
        let plan = Plan::new(vec![open(1, None, 10 + day), open(2, None, 10 + 365 * day)], Vec::new(), at(10));
        assert_eq!((numbers(&plan), plan.next_try), (vec![vec![2]], Some(at(10 + day))));
        // The attempts were at second 0 of a clock that now shows the time an hour before, or that of another node.
        let plan = Plan::new(vec![open(1, None, 5)], Vec::new(), at(-60 * 60));
        assert_eq!((numbers(&plan), plan.next_try), (vec![vec![1]], None));
        let plan = Plan::new(vec![open(1, None, 5)], Vec::new(), at(-5 * 60));
        assert_eq!((numbers(&plan), plan.next_try), (Vec::new(), Some(at(5))));
        // It was left before its first attempt.
        let left = WebhookFailure { last: None, ..open(1, None, 5) };
        assert_eq!(numbers(&Plan::new(vec![left], Vec::new(), at(-60 * 60))), [[1]]);
    }

    #[test]
    fn a_round_is_bounded() {
        let many = (0..1000).map(|number| open(number, None, 0)).collect();
        let plan = Plan::new(many, Vec::new(), at(10));
        assert_eq!((plan.groups.len(), plan.next_try), (WINDOW, Some(at(0))), "the rest is due at once");
    }
}
