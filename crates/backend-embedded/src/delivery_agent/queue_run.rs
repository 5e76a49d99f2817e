//! A queue run: claimed messages, those waiting for a connection, and active deliveries.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;

use mailapi_model::Timestamp;
use tokio::task::{Id, JoinError, JoinSet};

use super::connect::Destination;
use super::delivery::{self, Claimed};
use super::{DeliveryAgent, Inner};
use crate::message_store::MessageStoreError;
use crate::queue::{HeldClaim, QueueKey, QueuedMessage, Task};

/// State of the delivery agent between two steps. Dropping it aborts the deliveries; their leases end by
/// themselves.
pub(super) struct QueueRun {
    delivery_agent: DeliveryAgent,
    /// Destinations with waiting messages, in the order in which they get connections.
    rotation: VecDeque<Destination>,
    waiting: HashMap<Destination, VecDeque<Claimed>>,
    /// Number of waiting recipients.
    waiting_recipients: usize,
    running: HashMap<Destination, usize>,
    deliveries: JoinSet<()>,
    destination_of: HashMap<Id, Destination>,
}

impl QueueRun {
    pub(super) fn new(delivery_agent: DeliveryAgent) -> Self {
        Self {
            delivery_agent,
            rotation: VecDeque::new(),
            waiting: HashMap::new(),
            waiting_recipients: 0,
            running: HashMap::new(),
            deliveries: JoinSet::new(),
            destination_of: HashMap::new(),
        }
    }

    /// Returns whether nothing more can be claimed before a delivery ends.
    pub(super) fn is_full(&self) -> bool {
        self.waiting_recipients >= self.delivery_agent.0.settings.max_claimed
    }

    /// Claims due recipients and starts deliveries on free connections. Returns the number of claimed
    /// recipients.
    pub(super) async fn fill(&mut self) -> Result<usize, MessageStoreError> {
        self.release_held().await?;
        let claimed = self.claim().await?;
        self.start();
        if self.is_full() {
            self.put_off().await?;
        }
        Ok(claimed)
    }

    /// Waits for the end of a delivery. Returns false if none is active.
    pub(super) async fn finish_one(&mut self) -> bool {
        let Some(ended) = self.deliveries.join_next_with_id().await else { return false };
        if let Err(error) = &ended {
            tracing::error!(%error, "delivery task panicked; its messages are retried when their leases end");
        }
        // A panicked delivery must release its connection, too.
        self.give_back(ended.map_or_else(|error: JoinError| error.id(), |(id, ())| id));
        self.start();
        true
    }

    /// Drops deliveries that have not started: they are due again when their leases end, or after the next
    /// start.
    pub(super) fn give_up_waiting(&mut self) {
        self.rotation.clear();
        self.waiting.clear();
        self.waiting_recipients = 0;
    }

    async fn claim(&mut self) -> Result<usize, MessageStoreError> {
        let delivery_agent = self.delivery_agent.clone();
        let (message_store, settings) = (&delivery_agent.0.message_store, &delivery_agent.0.settings);
        let now = message_store.clock().now();
        if self.is_full() || message_store.next_due_at().await?.is_none_or(|due| due > now) {
            return Ok(0);
        }
        let room = settings.max_claimed - self.waiting_recipients;
        // A lease may end before the result of its attempt is recorded.
        let messages = delivery_agent.0.in_flight.leave_free(message_store.claim_due(room, settings.lease).await?);
        let mut claimed = 0;
        let mut later: BTreeMap<Timestamp, Vec<(QueueKey, u32)>> = BTreeMap::new();
        for message in messages {
            for (destination, message) in self.by_destination(message) {
                if let Err(until) = self.admit(&destination, now) {
                    later.entry(until).or_default().extend(names(&message));
                    continue;
                }
                claimed += message.recipients.len();
                self.wait(destination, Claimed { message, leased_until: now.plus(settings.lease) });
            }
        }
        for (until, recipients) in later {
            message_store.put_off(recipients, until).await?;
        }
        Ok(claimed)
    }

    /// Counts a message towards the rate of its destination, or returns when it may be sent.
    fn admit(&self, destination: &Destination, now: Timestamp) -> Result<(), Timestamp> {
        let Inner { settings, pace, .. } = &*self.delivery_agent.0;
        match NonZeroU32::new(settings.messages_per_minute_per_destination) {
            Some(per_minute) if *destination != Destination::Here => pace.admit(destination, per_minute, now),
            _ => Ok(()),
        }
    }

    /// Releases the claims of messages that were put on hold, unless an attempt may be in progress. Otherwise the
    /// operator could remove a message only after it has waited for a connection.
    async fn release_held(&mut self) -> Result<(), MessageStoreError> {
        let delivery_agent = self.delivery_agent.clone();
        let (message_store, in_flight) = (&delivery_agent.0.message_store, &delivery_agent.0.in_flight);
        let held = message_store.held_claims().await?;
        if held.is_empty() {
            return Ok(());
        }
        let waiting = self.take_waiting(&held.iter().map(|claim| (claim.key, claim.position)).collect());
        let now = message_store.clock().now();
        // A delivery starts no attempt after the lease.
        let is_left = |claim: &HeldClaim| claim.leased_until <= now && !in_flight.contains(claim.key, claim.position);
        let left = held.iter().filter(|claim| is_left(claim)).map(|claim| (claim.key, claim.position));
        let released = waiting.into_iter().chain(left).collect();
        Ok(message_store.put_off(released, now).await?)
    }

    /// Removes these recipients from the waiting ones. Returns those that were waiting.
    fn take_waiting(&mut self, recipients: &HashSet<(QueueKey, u32)>) -> Vec<(QueueKey, u32)> {
        let mut taken = Vec::new();
        for queue in self.waiting.values_mut() {
            for Claimed { message, .. } in queue.iter_mut() {
                taken.extend(names(message).filter(|name| recipients.contains(name)));
                message.recipients.retain(|one| !recipients.contains(&(message.key, one.position)));
            }
            queue.retain(|claimed| !claimed.message.recipients.is_empty());
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        self.rotation.retain(|destination| self.waiting.contains_key(destination));
        self.waiting_recipients -= taken.len();
        taken
    }

    /// Splits a message by the destination of its recipients.
    fn by_destination(&self, message: QueuedMessage) -> Vec<(Destination, QueuedMessage)> {
        let to_relay = self.delivery_agent.0.settings.relay.is_some();
        let mut parts: Vec<(Destination, QueuedMessage)> = Vec::new();
        let mut places: HashMap<Destination, usize> = HashMap::new();
        let base = QueuedMessage { recipients: Vec::new(), ..message.clone() };
        for recipient in message.recipients {
            let destination = match recipient.task {
                Task::NotifySuccess => Destination::Here,
                Task::Deliver if to_relay => Destination::Relay,
                Task::Deliver => Destination::Domain(recipient.address.domain()),
            };
            let place = *places.entry(destination.clone()).or_insert_with(|| {
                parts.push((destination, base.clone()));
                parts.len() - 1
            });
            parts[place].1.recipients.push(recipient);
        }
        parts
    }

    fn wait(&mut self, destination: Destination, claimed: Claimed) {
        self.waiting_recipients += claimed.message.recipients.len();
        if !self.waiting.contains_key(&destination) {
            self.rotation.push_back(destination.clone());
        }
        self.waiting.entry(destination).or_default().push_back(claimed);
    }

    /// Assigns connections to the destinations in turn, until all are in use or no destination may have
    /// another.
    fn start(&mut self) {
        let settings = &self.delivery_agent.0.settings;
        let (most, most_each) = (settings.max_connections.max(1), settings.max_connections_per_destination.max(1));
        // Counts destinations at their limit; a full round of them ends the loop.
        let mut passed_over = 0;
        while self.deliveries.len() < most && passed_over < self.rotation.len() {
            let Some(destination) = self.rotation.pop_front() else { break };
            if self.running.get(&destination).is_some_and(|running| *running >= most_each) {
                self.rotation.push_back(destination);
                passed_over += 1;
                continue;
            }
            passed_over = 0;
            let work = self.take_work(&destination);
            *self.running.entry(destination.clone()).or_default() += 1;
            let delivery = delivery::run(self.delivery_agent.clone(), destination.clone(), work);
            let id = self.deliveries.spawn(delivery).id();
            self.destination_of.insert(id, destination);
        }
    }

    /// Returns as many messages as one connection carries.
    fn take_work(&mut self, destination: &Destination) -> Vec<Claimed> {
        let most = self.delivery_agent.0.settings.max_messages_per_connection.max(1);
        let Some(queue) = self.waiting.get_mut(destination) else { return Vec::new() };
        let work: Vec<_> = queue.drain(..most.min(queue.len())).collect();
        if queue.is_empty() {
            self.waiting.remove(destination);
        } else {
            self.rotation.push_back(destination.clone());
        }
        self.waiting_recipients -= work.iter().map(|claimed| claimed.message.recipients.len()).sum::<usize>();
        work
    }

    fn give_back(&mut self, delivery: Id) {
        let Some(destination) = self.destination_of.remove(&delivery) else { return };
        if let Some(running) = self.running.get_mut(&destination) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&destination);
            }
        }
    }

    /// Releases claims of the busiest destination for a while, so that it does not block the others while
    /// connections are free. With a relay there is only one destination.
    async fn put_off(&mut self) -> Result<(), MessageStoreError> {
        let settings = &self.delivery_agent.0.settings;
        if settings.relay.is_some() || self.deliveries.len() >= settings.max_connections {
            return Ok(());
        }
        let recipients =
            |queue: &VecDeque<Claimed>| -> usize { queue.iter().map(|claimed| claimed.message.recipients.len()).sum() };
        let busiest = self.waiting.iter().max_by_key(|(_, queue)| recipients(queue)).map(|(name, _)| name.clone());
        let Some(queue) = busiest.and_then(|busiest| self.waiting.get_mut(&busiest)) else { return Ok(()) };
        // One half is kept, so that the destination's connections stay busy.
        let put_off = queue.split_off(queue.len().div_ceil(2));
        self.waiting_recipients -= recipients(&put_off);
        let message_store = &self.delivery_agent.0.message_store;
        let until: Timestamp = message_store.clock().now().plus(settings.busy_pause);
        let recipients = put_off.iter().flat_map(|claimed| names(&claimed.message)).collect();
        Ok(message_store.put_off(recipients, until).await?)
    }
}

/// Returns the names of a message's recipients in the queue.
fn names(message: &QueuedMessage) -> impl Iterator<Item = (QueueKey, u32)> + '_ {
    message.recipients.iter().map(|recipient| (message.key, recipient.position))
}
