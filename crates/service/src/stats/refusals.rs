//! Refusals of mail from outside that wait to become events.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mailapi_model::{ClientNetwork, InboundRefusal, Timestamp};

/// Maximum number of events of each client, and of all clients. A stranger must not fill the log, and a person who looks
/// for lost mail needs a few; statistics count all refusals. The clients of an hour together make some 100 MB of events
/// in a day.
const OF_MINUTE: Limits = Limits { seconds: 60, of_client: 20, of_all: 1_000 };
const OF_HOUR: Limits = Limits { seconds: 60 * 60, of_client: 200, of_all: 5_000 };
/// Maximum number of events in memory.
const MOST: usize = 1_000;

/// Maximum numbers of events in a period.
struct Limits {
    seconds: i64,
    of_client: u32,
    of_all: u32,
}

/// The events of a period.
#[derive(Default)]
struct Period {
    number: i64,
    /// By the client's subscriber, which may use any number of networks; those of unknown clients count together.
    clients: HashMap<Option<String>, u32>,
    all: u32,
}

impl Period {
    /// Begins a new period if the last one is over, also if the clock was set back.
    fn move_to(&mut self, at: Timestamp, limits: &Limits) {
        let number = at.as_seconds().div_euclid(limits.seconds);
        if self.number != number {
            *self = Self { number, ..Self::default() };
        }
    }

    fn has_room(&self, client: Option<&String>, limits: &Limits) -> bool {
        let count = self.clients.get(&client.cloned()).copied().unwrap_or_default();
        self.all < limits.of_all && count < limits.of_client
    }

    fn count(&mut self, client: Option<String>) {
        *self.clients.entry(client).or_default() += 1;
        self.all += 1;
    }
}

/// Refusals that wait; a crash loses them.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    minute: Period,
    hour: Period,
    refusals: Vec<(InboundRefusal, u64)>,
    /// The number of refusals since the last one that waited.
    left_out: u64,
    /// The last of them.
    last_left_out: Option<InboundRefusal>,
}

impl Refusals {
    /// Adds a refusal if the limits allow it.
    pub(crate) fn note(&self, refusal: InboundRefusal) {
        let mut waiting = self.waiting();
        waiting.minute.move_to(refusal.at, &OF_MINUTE);
        waiting.hour.move_to(refusal.at, &OF_HOUR);
        let client = refusal.client.map(|client| ClientNetwork::of(client).subscriber());
        let is_within =
            waiting.minute.has_room(client.as_ref(), &OF_MINUTE) && waiting.hour.has_room(client.as_ref(), &OF_HOUR);
        if !is_within || waiting.refusals.len() >= MOST {
            waiting.left_out += 1;
            waiting.last_left_out = Some(refusal);
            return;
        }
        waiting.minute.count(client.clone());
        waiting.hour.count(client);
        let left_out = mem::take(&mut waiting.left_out);
        waiting.last_left_out = None;
        waiting.refusals.push((refusal, left_out));
    }

    /// Adds the last refusal that was left out, because the process stops. Its event has the number of the others.
    pub(crate) fn note_last(&self) {
        let mut waiting = self.waiting();
        if let Some(refusal) = waiting.last_left_out.take() {
            let left_out = mem::take(&mut waiting.left_out).saturating_sub(1);
            waiting.refusals.push((refusal, left_out));
        }
    }

    /// Adds to the number of refusals that were left out.
    pub(crate) fn leave_out(&self, count: u64) {
        self.waiting().left_out += count;
    }

    /// Removes and returns the refusals, each with the number of those before it that were left out.
    pub(crate) fn take(&self) -> Vec<(InboundRefusal, u64)> {
        mem::take(&mut self.waiting().refusals)
    }

    /// Puts refusals back that could not be stored, before the others. Those without room are left out.
    pub(crate) fn put_back(&self, mut refusals: Vec<(InboundRefusal, u64)>) {
        let mut waiting = self.waiting();
        refusals.append(&mut waiting.refusals);
        for (refusal, left_out) in refusals.drain(MOST.min(refusals.len())..) {
            waiting.left_out += left_out + 1;
            waiting.last_left_out.get_or_insert(refusal);
        }
        waiting.refusals = refusals;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use mailapi_model::{RefusalStage, Reply};

    use super::*;

    fn refusal(second: i64, client: &str) -> InboundRefusal {
        InboundRefusal {
            at: Timestamp::from_seconds(second),
            client: client.parse().ok(),
            sender: None,
            recipient: "ann@example.org".parse().unwrap(),
            stage: RefusalStage::Recipient,
            reply: Reply { code: 550, enhanced: None, text: "no".to_owned() },
        }
    }

    fn left_out(refusals: &Refusals) -> Vec<u64> {
        refusals.take().into_iter().map(|(_, left_out)| left_out).collect()
    }

    #[test]
    fn a_client_has_few_events_a_minute_and_the_rest_is_counted() {
        let refusals = Refusals::default();
        for number in 0..100 {
            // One subscriber with many addresses.
            refusals.note(refusal(60, &format!("2001:db8::{number:x}")));
        }
        assert_eq!(left_out(&refusals), [0; OF_MINUTE.of_client as usize]);
        refusals.note(refusal(61, "192.0.2.1"));
        refusals.note(refusal(62, "unknown"));
        assert_eq!(left_out(&refusals), [80, 0]);
        refusals.note(refusal(120, "2001:db8::1"));
        // The clock was set back.
        refusals.note(refusal(60, "2001:db8::1"));
        assert_eq!(left_out(&refusals), [0, 0]);
    }

    #[test]
    fn an_hour_has_a_limit_for_each_subscriber_and_for_all() {
        let refusals = Refusals::default();
        let events = |client: &dyn Fn(i64) -> String| -> usize {
            (0..60)
                .map(|minute| {
                    (0..100).for_each(|number| refusals.note(refusal(minute * 60, &client(100 * minute + number))));
                    refusals.take().len()
                })
                .sum()
        };
        // One subscriber with a network for each message.
        assert_eq!(events(&|number| format!("2001:db8:1:{number:x}::1")), OF_HOUR.of_client as usize);
        let others = OF_HOUR.of_all - OF_HOUR.of_client;
        assert_eq!(events(&|number| format!("2001:db8:{number:x}::1")), others as usize);
    }

    #[test]
    fn the_last_refusal_that_was_left_out_has_the_count_at_the_end() {
        let refusals = Refusals::default();
        refusals.note_last();
        (0..=OF_MINUTE.of_client).for_each(|_| refusals.note(refusal(60, "192.0.2.1")));
        refusals.note(refusal(61, "192.0.2.1"));
        refusals.take();
        refusals.note_last();
        let last = refusals.take();
        assert_eq!(last, [(refusal(61, "192.0.2.1"), 1)]);
        // It could not be stored, so it waits with its count.
        refusals.put_back(last);
        refusals.note_last();
        assert_eq!(left_out(&refusals), [1]);
    }

    #[test]
    fn many_clients_do_not_fill_the_memory() {
        let refusals = Refusals::default();
        let flood = |second| {
            (0..3 * MOST).for_each(|n| refusals.note(refusal(second, &format!("192.0.{}.{}", n / 256, n % 256))))
        };
        flood(60);
        let waiting = refusals.take();
        assert_eq!(waiting.len(), MOST);
        flood(120);
        refusals.put_back(waiting);
        assert_eq!(refusals.waiting().refusals.len(), MOST);
        assert_eq!(refusals.waiting().left_out, 2 * MOST as u64 + 3 * MOST as u64, "none is forgotten");
    }
}
