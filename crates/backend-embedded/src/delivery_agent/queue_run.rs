//! A queue run: claimed messages, those waiting for a connection, and active deliveries.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::future::pending;
use std::num::NonZeroU32;

use mailapi_model::Timestamp;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::connect::Destination;
use super::delivery::{self, Claimed};
use super::fair_rotation::{FairRotation, MailAuthor};
use super::{DeliveryAgent, Inner};
use crate::message_store::MessageStoreError;
use crate::queue::{HeldClaim, QueueKey, QueuedMessage, Task};

/// Slow deliveries for each connection of [`super::DeliveryAgentSettings::max_connections`].
const SLOW_FOR_EACH: usize = 5;

/// State of the delivery agent between two steps. Dropping it aborts the deliveries; their leases end by
/// themselves.
pub(super) struct QueueRun {
    delivery_agent: DeliveryAgent,
    /// The authors and destinations of waiting messages, in the order in which they get connections.
    rotation: FairRotation,
    waiting: HashMap<Destination, Vec<(MailAuthor, VecDeque<Claimed>)>>,
    /// Number of waiting recipients.
    waiting_recipients: usize,
    running: HashMap<Destination, usize>,
    deliveries: JoinSet<()>,
    running_deliveries: HashMap<Id, RunningDelivery>,
}

/// A delivery that has a connection, or looks for one.
struct RunningDelivery {
    destination: Destination,
    author: MailAuthor,
    /// When it becomes slow.
    slow_at: Instant,
    /// It takes long, and no longer counts as one of the connections. Otherwise servers that do not answer would take all
    /// of them, and no other mail would leave.
    is_slow: bool,
}

impl QueueRun {
    pub(super) fn new(delivery_agent: DeliveryAgent) -> Self {
        Self {
            delivery_agent,
            rotation: FairRotation::default(),
            waiting: HashMap::new(),
            waiting_recipients: 0,
            running: HashMap::new(),
            deliveries: JoinSet::new(),
            running_deliveries: HashMap::new(),
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
        let mut claimed = 0;
        loop {
            claimed += self.claim().await?;
            self.start();
            if !self.is_full() || !self.put_off().await? {
                return Ok(claimed);
            }
        }
    }

    /// Waits for the end of a delivery, or until one is so slow that another may start. Returns false if none is active.
    pub(super) async fn finish_one(&mut self) -> bool {
        let slow_at = self.next_slow_at();
        let becomes_slow = async {
            match slow_at {
                Some(moment) => sleep_until(moment).await,
                None => pending().await,
            }
        };
        let ended = tokio::select! {
            ended = self.deliveries.join_next_with_id() => ended,
            () = becomes_slow => {
                self.start();
                return true;
            }
        };
        let Some(ended) = ended else { return false };
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
        for (_, queue) in self.waiting.values_mut().flatten() {
            for Claimed { message, .. } in queue.iter_mut() {
                taken.extend(names(message).filter(|name| recipients.contains(name)));
                message.recipients.retain(|one| !recipients.contains(&(message.key, one.position)));
            }
            queue.retain(|claimed| !claimed.message.recipients.is_empty());
        }
        self.forget_empty();
        self.waiting_recipients -= taken.len();
        taken
    }

    /// Forgets authors and destinations without waiting messages.
    fn forget_empty(&mut self) {
        let rotation = &mut self.rotation;
        self.waiting.retain(|destination, authors| has_waiting(destination, authors, rotation));
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
        let author = MailAuthor::of(&claimed.message);
        let authors = self.waiting.entry(destination.clone()).or_default();
        match authors.iter_mut().find(|(one, _)| *one == author) {
            Some((_, queue)) => queue.push_back(claimed),
            None => {
                authors.push((author.clone(), VecDeque::from([claimed])));
                self.rotation.push(&author, destination);
            }
        }
    }

    /// Assigns connections to authors and destinations in turn, until all are in use or no author may have another.
    fn start(&mut self) {
        self.find_slow();
        let delivery_agent = self.delivery_agent.clone();
        let settings = &delivery_agent.0.settings;
        let (most, most_each) = (settings.max_connections.max(1), settings.max_connections_per_destination.max(1));
        let slow_of = self.slow_of_authors();
        // A new delivery takes a connection until it is slow, so an author with many slow ones must wait.
        let may_start = |author: &MailAuthor| slow_of.get(author).is_none_or(|slow| *slow < most);
        while self.quick() < most {
            let running = &self.running;
            let is_free =
                |destination: &Destination| running.get(destination).is_none_or(|running| *running < most_each);
            let Some((author, destination)) = self.rotation.next(may_start, is_free) else { break };
            let work = self.take_work(&author, &destination, may_start);
            *self.running.entry(destination.clone()).or_default() += 1;
            let delivery = delivery::run(self.delivery_agent.clone(), destination.clone(), work);
            let id = self.deliveries.spawn(delivery).id();
            let slow_at = Instant::now() + settings.slow_after;
            self.running_deliveries.insert(id, RunningDelivery { destination, author, slow_at, is_slow: false });
        }
    }

    /// Returns the number of deliveries that count as connections.
    fn quick(&self) -> usize {
        self.running_deliveries.values().filter(|delivery| !delivery.is_slow).count()
    }

    /// Marks deliveries that take long, as many as there may be.
    fn find_slow(&mut self) {
        let now = Instant::now();
        let most = self.delivery_agent.0.settings.max_connections.max(1) * SLOW_FOR_EACH;
        let room = most.saturating_sub(self.running_deliveries.len() - self.quick());
        let late = self.running_deliveries.values_mut().filter(|delivery| !delivery.is_slow && delivery.slow_at <= now);
        late.take(room).for_each(|delivery| delivery.is_slow = true);
    }

    fn slow_of_authors(&self) -> HashMap<MailAuthor, usize> {
        let mut slow = HashMap::new();
        for delivery in self.running_deliveries.values().filter(|delivery| delivery.is_slow) {
            *slow.entry(delivery.author.clone()).or_default() += 1;
        }
        slow
    }

    /// Returns when a delivery becomes slow, if messages wait for its connection.
    fn next_slow_at(&self) -> Option<Instant> {
        let most = self.delivery_agent.0.settings.max_connections.max(1);
        let has_room = self.running_deliveries.len() - self.quick() < most * SLOW_FOR_EACH;
        let quick = || self.running_deliveries.values().filter(|delivery| !delivery.is_slow);
        let is_needed = !self.waiting.is_empty() && has_room && quick().count() >= most;
        is_needed.then(|| quick().map(|delivery| delivery.slow_at).min()).flatten()
    }

    /// Returns as many messages as one connection carries: those of the author, and then those of others.
    fn take_work(
        &mut self,
        author: &MailAuthor,
        destination: &Destination,
        may_start: impl Fn(&MailAuthor) -> bool,
    ) -> Vec<Claimed> {
        let most = self.delivery_agent.0.settings.max_messages_per_connection.max(1);
        let Some(authors) = self.waiting.get_mut(destination) else { return Vec::new() };
        authors.sort_by_key(|(one, _)| one != author);
        let mut work = Vec::new();
        for (_, queue) in authors.iter_mut().filter(|(one, _)| one == author || may_start(one)) {
            work.extend(queue.drain(..queue.len().min(most - work.len())));
        }
        self.waiting_recipients -= work.iter().map(|claimed| claimed.message.recipients.len()).sum::<usize>();
        let rests = authors.iter().any(|(one, queue)| one == author && !queue.is_empty());
        if !has_waiting(destination, authors, &mut self.rotation) {
            self.waiting.remove(destination);
        }
        if rests {
            self.rotation.push(author, destination.clone());
        }
        work
    }

    fn give_back(&mut self, delivery: Id) {
        let Some(RunningDelivery { destination, .. }) = self.running_deliveries.remove(&delivery) else { return };
        if let Some(running) = self.running.get_mut(&destination) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&destination);
            }
        }
    }

    /// Releases claims of the busiest author for a while, so that it does not block the others while connections are free.
    /// With a relay there is only one destination. Returns whether it released any.
    async fn put_off(&mut self) -> Result<bool, MessageStoreError> {
        let delivery_agent = self.delivery_agent.clone();
        let Inner { settings, message_store, .. } = &*delivery_agent.0;
        if settings.relay.is_some() || self.quick() >= settings.max_connections {
            return Ok(false);
        }
        let mut waiting: HashMap<&MailAuthor, usize> = HashMap::new();
        for (author, queue) in self.waiting.values().flatten() {
            *waiting.entry(author).or_default() += queue.len();
        }
        let Some((busiest, messages)) = waiting.into_iter().max_by_key(|(_, messages)| *messages) else {
            return Ok(false);
        };
        let busiest = busiest.clone();
        // One half is kept, so that the author's connections stay busy.
        let (mut put_off, most) = (VecDeque::new(), messages / 2);
        for (_, queue) in self.waiting.values_mut().flatten().filter(|(author, _)| *author == busiest) {
            let kept = queue.len().saturating_sub(most - put_off.len());
            put_off.extend(queue.split_off(kept));
        }
        self.forget_empty();
        self.waiting_recipients -= count(&put_off);
        let until: Timestamp = message_store.clock().now().plus(settings.busy_pause);
        let recipients: Vec<_> = put_off.iter().flat_map(|claimed| names(&claimed.message)).collect();
        let is_less = !recipients.is_empty();
        message_store.put_off(recipients, until).await?;
        Ok(is_less)
    }
}

/// Forgets the authors without messages to a destination; returns whether messages are left.
fn has_waiting(
    destination: &Destination,
    authors: &mut Vec<(MailAuthor, VecDeque<Claimed>)>,
    rotation: &mut FairRotation,
) -> bool {
    for (author, _) in authors.extract_if(.., |(_, queue)| queue.is_empty()) {
        rotation.remove(&author, destination);
    }
    !authors.is_empty()
}

/// Counts the recipients of messages.
fn count(queue: &VecDeque<Claimed>) -> usize {
    queue.iter().map(|claimed| claimed.message.recipients.len()).sum()
}

/// Returns the names of a message's recipients in the queue.
fn names(message: &QueuedMessage) -> impl Iterator<Item = (QueueKey, u32)> + '_ {
    message.recipients.iter().map(|recipient| (message.key, recipient.position))
}
