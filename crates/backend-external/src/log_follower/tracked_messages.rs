//! The tracked messages: what the lines of the log mean together, from a message's first line to `removed`.
//!
//! ```text
//! client= / uid= (pickup)     message begins         Fact::Begins, Fact::PickedUp
//! message-id= (cleanup)       message is identified  Fact::MessageId
//! from=, nrcpt= (qmgr)        message is queued      Fact::Queued
//! to=, status=                attempt ended          Fact::Delivery (repeated)
//! removed (qmgr, postsuper)   message is closed      Fact::Removed, Fact::Deleted
//! ```
//!
//! A message that the operator deletes or requeues during a delivery attempt stays open under its id until the attempt
//! has ended (`deletions`). The inode number in a queue id proves that a former file is gone (`queue_files`). If lines
//! are missing, a deletion proves less (`losses`).
//!
//! A queue id denotes one message from the line that opens it to the line that closes it, within one Postfix
//! instance. An id may be reused at once: a line that begins a message discards the old state of the id.
//!
//! A submitted message is recognised by its Message-ID. While it is queued, other messages with that Message-ID can
//! enter: returned by a content filter, forwarded by an alias, or requeued by the operator. Their outcomes count, and
//! the transmission to them does not. A copy that a mailing list sends back from outside does not count. It counts
//! only if the submitted message was transmitted under that very id, and then only for the recipients transmitted. A
//! Message-ID proves nothing by itself, since any recipient can send the message again. So a message that enters
//! after the submitted one has left the queue is a copy too, and so are its continuations.
//!
//! If a recipient expands to other addresses, the failure of a single address is reported as such. The failure of all
//! of them is reported once the message has left every queue and the log has a final outcome for each address.

mod deletions;
mod deliveries;
mod losses;
mod queue_files;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Duration;

use mailapi_backend::{Discarded, QueueSize};
use mailapi_model::{
    EmailAddress, InboundEvent, InboundOutcome, InboundRefusal, MessageId, QueueId, RefusalStage, ReversePath,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use deliveries::report_answers;
use queue_files::Inodes;

use super::fact::{Fact, NO_QUEUE, Rejection, fact};
use super::index::MessageIndex;
use super::line::Line;
use super::message::{Message, Origin, RefusedRecipient, Successor};
use super::report::{Crash, Findings, Taken};
use super::stored;
use super::submitted_ids::SubmittedIds;

/// How long a message is tracked without a new line. It exceeds Postfix's `maximal_queue_lifetime`, since nothing is
/// logged between two attempts.
const SILENT_MESSAGE_LIFETIME: Duration = Duration::from_hours(14 * 24);
/// The maximum number of refused recipients per transaction.
const MAX_REFUSED_RECIPIENTS: usize = 1000;
/// The maximum length of a line in a message (RFC 5322 section 2.1.1), so of a Message-ID too.
const MAX_HEADER_ID: usize = 998;

/// The tracked messages in the queue.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct TrackedMessages {
    /// The time of the newest line.
    #[serde(with = "stored")]
    pub(super) last_at: Option<Timestamp>,
    /// By instance and queue id.
    instances: HashMap<String, HashMap<String, Message>>,
    /// The queue ids of each submitted message.
    #[serde(skip)]
    by_message: HashMap<MessageId, Vec<Key>>,
    /// The queue ids of possible copies of each message.
    #[serde(skip)]
    by_claim: HashMap<MessageId, Vec<Key>>,
    #[serde(skip)]
    inodes: Inodes,
    /// The state of each instance, according to its lines.
    instance_states: HashMap<String, InstanceState>,
    /// Refusals before the message had a queue id, by [`session`].
    refused_early: HashMap<String, Vec<RefusedRecipient>>,
    /// The last active process of postsuper(1), and the number of messages that its lines named.
    postsuper: (u32, u64),
    /// The messages that left the queue during a delivery attempt, oldest first. Some may be closed already.
    left: VecDeque<Key>,
    /// The process id of each instance's queue manager.
    #[serde(skip)]
    queue_managers: HashMap<String, u32>,
    /// By process id and instance: the program of the delivery agent, and when it last logged a result for a message in
    /// the queue. Kept while messages left the queue during an attempt.
    #[serde(skip)]
    results: HashMap<u32, HashMap<String, (String, Timestamp)>>,
}

/// Whether an instance of Postfix runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Running {
    /// It has started.
    Yes,
    /// `postfix stop` has begun to stop it. Its last lines are missing if its logger stops too.
    Stopping,
    /// It logged that it terminates.
    No,
}

/// The state of an instance of Postfix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct InstanceState {
    running: Running,
    /// When it started; `None` if that was before the first line.
    #[serde(with = "stored")]
    started_at: Option<Timestamp>,
    /// Since when silence counts after the operator deleted messages without a line for each. Reset when the follower
    /// has decided which ones.
    #[serde(with = "stored")]
    deleted_at: Option<Timestamp>,
}

/// Instance and queue id of a message.
type Key = (String, String);

impl TrackedMessages {
    /// Applies one line.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub(super) fn apply(
        &mut self,
        line: &Line<'_>,
        submitted_ids: &SubmittedIds,
        index: &mut MessageIndex,
    ) -> io::Result<Findings> {
        let before = self.last_at.replace(line.at);
        let mut findings = Findings::default();
        self.end_attempts_before_start(line, &mut findings);
        findings.crash = self.note_running(line, before);
        self.note_losses(line, findings.crash.as_ref());
        self.note_queue_manager(line);
        self.end_long_attempts(line.at, &mut findings);
        self.note_postsuper(line, &mut findings);
        let Some((id, fact)) = fact(line) else {
            self.forget_refusals_of_closed_session(line);
            return Ok(findings);
        };
        let begins = matches!(fact, Fact::Begins { .. } | Fact::PickedUp { .. } | Fact::MessageId(_));
        if begins {
            self.note_replaced_files(line, id, &mut findings);
        } else if self.get(line.instance, id).is_none() {
            self.adopt_renamed(line.instance, id);
        }
        match fact {
            Fact::Begins { authenticated, loopback } => self.begin(line, id, authenticated, loopback),
            Fact::PickedUp { former } => self.pick_up(line, id, former),
            Fact::MessageId(header) => self.name(line, id, header, index)?,
            Fact::Queued { sender, recipients } => {
                let message = self.open(line, id, Origin::Unknown);
                message.expect_recipients(recipients);
                message.begin_attempt(recipients);
                self.queue(line, id, sender, submitted_ids, &mut findings);
            }
            Fact::Delivery(delivery) => {
                self.note_result(line, id);
                self.deliver(line, id, &delivery, submitted_ids, &mut findings);
                // local(8) expands aliases, and may log several lines for one address.
                if line.daemon != "local" || delivery.orig_to.is_none() {
                    self.end_attempt(line, id, Message::end_attempt, &mut findings);
                }
            }
            Fact::FileGone => self.note_gone(line, id, &mut findings),
            Fact::Unopened => self.end_attempt(line, id, Message::end_attempt, &mut findings),
            Fact::Expired => self.expire(line, id, &mut findings),
            Fact::Removed => self.finish(line, id, &mut findings),
            Fact::Deleted => self.delete(line, id, &mut findings),
            Fact::Rejected(rejection) => self.reject(line, id, rejection, &mut findings),
            Fact::Discarded { sender, response } => {
                findings.discarded.extend(self.discard(line, id, sender, response, submitted_ids));
            }
            Fact::Held => self.open(line, id, Origin::Unknown).held = true,
            Fact::MarkedAsSpam => self.open(line, id, Origin::Unknown).marked_as_spam = true,
        }
        if begins {
            self.get(line.instance, id).into_iter().for_each(|message| message.is_inode_sure = true);
            self.note_file(line.instance, id);
        }
        Ok(findings)
    }

    /// Returns the number of messages in the queue.
    pub(super) fn len(&self) -> usize {
        self.instances.values().map(HashMap::len).sum()
    }

    /// Returns the queue ids and states of a submitted message that is in the queue or being received.
    pub(super) fn of_message(&self, message_id: MessageId) -> impl Iterator<Item = (&str, &Message)> {
        let keys = self.by_message.get(&message_id).into_iter().flatten();
        keys.filter_map(|(instance, id)| Some((id.as_str(), self.instances.get(instance)?.get(id)?)))
    }

    /// Returns the submitted message that has this queue id.
    pub(super) fn message_of(&self, id: &str) -> Option<MessageId> {
        self.instances.values().find_map(|messages| messages.get(id)?.message_id)
    }

    /// Returns whether a submitted message, or a possible copy of it, is in the queue or being received.
    pub(super) fn has(&self, message_id: MessageId) -> bool {
        let keys = [&self.by_message, &self.by_claim].into_iter().filter_map(|keys| keys.get(&message_id)).flatten();
        let mut messages = keys.filter_map(|(instance, id)| self.instances.get(instance)?.get(id));
        messages.next().is_some()
    }

    /// Returns the size of the queue.
    pub(super) fn queue_size(&self) -> QueueSize {
        let mut size = QueueSize::default();
        let in_queue = |message: &&Message| message.left.is_none();
        for message in self.instances.values().flat_map(HashMap::values).filter(in_queue) {
            if message.waiting.is_empty() {
                size.queued += 1;
            } else {
                size.deferred += 1;
            }
            size.oldest = Some(size.oldest.map_or(message.first_seen, |oldest| oldest.min(message.first_seen)));
        }
        size
    }

    /// Returns a copy that holds only the messages with this identifier and the early refusals.
    pub(super) fn only(&self, message_id: MessageId) -> Self {
        let mut part = Self {
            last_at: self.last_at,
            instance_states: self.instance_states.clone(),
            refused_early: self.refused_early.clone(),
            ..Self::default()
        };
        let claims = self.by_claim.get(&message_id).into_iter().flatten();
        for (instance, id) in self.by_message.get(&message_id).into_iter().flatten().chain(claims) {
            if let Some(message) = self.instances.get(instance).and_then(|messages| messages.get(id)) {
                part.restore(instance, id, message.clone());
            }
        }
        part
    }

    /// Restores what a saved state omits.
    pub(super) fn with_keys(mut self) -> Self {
        for (instance, messages) in std::mem::take(&mut self.instances) {
            for (id, message) in messages {
                self.restore(&instance, &id, message);
            }
        }
        self
    }

    /// Adds a message with its keys.
    fn restore(&mut self, instance: &str, id: &str, message: Message) {
        if let Some(message_id) = message.message_id {
            self.add_key(message_id, instance, id);
        }
        if let Some(message_id) = message.claims {
            add_key(&mut self.by_claim, message_id, instance, id);
        }
        self.instances.entry(instance.to_owned()).or_default().insert(id.to_owned(), message);
        self.note_file(instance, id);
    }

    /// Removes messages without a line for too long (`postsuper -d ALL` logs no line for each). Also removes the
    /// oldest if there are too many, and returns the number of those.
    pub(super) fn forget_stale(&mut self, max_open_messages: usize) -> usize {
        let Some(now) = self.last_at else { return 0 };
        let horizon = now.minus(SILENT_MESSAGE_LIFETIME);
        let mut keys = self.keys(|message| message.last_seen < horizon);
        for (instance, id) in keys.drain(..) {
            self.close(&instance, &id);
        }
        let excess = self.len().saturating_sub(max_open_messages);
        if excess > 0 {
            let mut oldest = self.keys(|_| true);
            oldest.sort_by_cached_key(|(instance, id)| self.instances[instance][id].last_seen);
            for (instance, id) in oldest.into_iter().take(excess) {
                self.close(&instance, &id);
            }
        }
        excess
    }

    fn keys(&self, wanted: impl Fn(&Message) -> bool) -> Vec<Key> {
        let of_instance = |(instance, messages): (&String, &HashMap<String, Message>)| {
            let ids = messages.iter().filter(|(_, message)| wanted(message));
            ids.map(|(id, _)| (instance.clone(), id.clone())).collect::<Vec<_>>()
        };
        self.instances.iter().flat_map(of_instance).collect()
    }

    fn get(&mut self, instance: &str, id: &str) -> Option<&mut Message> {
        self.instances.get_mut(instance)?.get_mut(id)
    }

    /// Returns the message of this id. An unknown one is created with `origin`: its beginning is not in the log.
    fn open(&mut self, line: &Line<'_>, id: &str, origin: Origin) -> &mut Message {
        if !self.instances.contains_key(line.instance) {
            self.instances.insert(line.instance.to_owned(), HashMap::new());
        }
        let messages = self.instances.entry(line.instance.to_owned()).or_default();
        let message = messages.entry(id.to_owned()).or_insert_with(|| Message::new(line.at, origin));
        message.last_seen = line.at;
        message.cut_off = false;
        message
    }

    /// Removes the message of this id.
    fn close(&mut self, instance: &str, id: &str) -> Option<Message> {
        let message = self.instances.get_mut(instance)?.remove(id)?;
        self.forget_file(instance, id);
        if let Some(message_id) = message.message_id {
            remove_key(&mut self.by_message, message_id, instance, id);
        }
        if let Some(message_id) = message.claims {
            remove_key(&mut self.by_claim, message_id, instance, id);
        }
        Some(message)
    }

    fn add_key(&mut self, message_id: MessageId, instance: &str, id: &str) {
        add_key(&mut self.by_message, message_id, instance, id);
    }

    fn begin(&mut self, line: &Line<'_>, id: &str, authenticated: bool, loopback: bool) {
        // The id may be reused without a `removed` line for its former message.
        self.close(line.instance, id);
        let origin = match (authenticated || line.service.is_some(), loopback) {
            (true, _) => Origin::Submitted,
            (false, true) => Origin::Loopback,
            (false, false) => Origin::Outside,
        };
        // Postfix assigns the queue id after the first accepted recipient, so earlier refusals belong to this
        // message.
        let refused = self.refused_early.remove(&session(line)).unwrap_or_default();
        self.open(line, id, origin).refused = refused;
    }

    fn pick_up(&mut self, line: &Line<'_>, id: &str, former: Option<&str>) {
        self.close(line.instance, id);
        let orig_id = former.map(str::to_owned);
        let former = former.and_then(|former| self.close(line.instance, former).map(|message| (former, message)));
        let message = self.open(line, id, Origin::PickedUp);
        message.orig_id = orig_id;
        if let Some((former_id, mut former)) = former {
            message.orig_id = former.orig_id.clone().or(message.orig_id.take());
            (message.message_id, message.claims) = (former.message_id, former.claims);
            // A message that a content filter returned has no other sign of its origin.
            let is_returned = former.origin == Origin::Loopback && former.message_id.is_none();
            message.from_outside = former.from_outside || is_returned;
            message.answers = std::mem::take(&mut former.answers);
            message.has_other_failure = former.has_other_failure;
            message.renamed.clone_from(&former.renamed);
            message.first_seen = former.first_seen;
            // The queue manager counts its recipients again, without those whose delivery has ended.
            (message.recipients, message.settled) = (former.recipients, former.settled);
            message.settled_before = former.settled;
            message.is_unsure = former.is_unsure;
            message.is_incomplete = former.is_incomplete;
            message.inherit(std::mem::take(&mut former.behind));
            let (message_id, claims) = (message.message_id, message.claims);
            if let Some(message_id) = message_id {
                self.add_key(message_id, line.instance, id);
            }
            if let Some(message_id) = claims {
                add_key(&mut self.by_claim, message_id, line.instance, id);
            }
            self.keep_former(line, former_id, former);
        }
    }

    fn name(&mut self, line: &Line<'_>, id: &str, header: &str, index: &mut MessageIndex) -> io::Result<()> {
        let known = self.get(line.instance, id).filter(|message| message.has_header).map(|message| message.queued);
        match known {
            // cleanup(8) logs each Message-ID header of a message, and the author chooses all of them.
            Some(false) => return Ok(()),
            // cleanup(8) logs none once the message is in the queue, so this is another message that reuses the id.
            Some(true) => drop(self.close(line.instance, id)),
            None => {}
        }
        let message = self.open(line, id, Origin::Internal);
        message.has_header = true;
        message.header_id = Some(header).filter(|id| !id.is_empty() && id.len() <= MAX_HEADER_ID).map(str::to_owned);
        let is_requeued = message.message_id.is_some() || message.claims.is_some();
        let (origin, orig_id) = (message.origin, message.orig_id.clone());
        let Some(message_id) = MessageId::from_header(header).filter(|_| !is_requeued) else { return Ok(()) };
        let predecessors = self.by_message.get(&message_id).cloned().unwrap_or_default();
        let has_open_copy = self.by_claim.contains_key(&message_id);
        let is_copy = match predecessors.is_empty() {
            _ if has_open_copy => true,
            false => origin == Origin::Outside,
            true => {
                let ids: Vec<&str> = [Some(id), orig_id.as_deref()].into_iter().flatten().collect();
                index.was_taken_elsewhere(message_id, &ids)?
            }
        };
        // Messages that pipe(8) or local(8) reinject were counted when these accepted them.
        let is_put_in = matches!(origin, Origin::PickedUp | Origin::Internal);
        let mut from_outside = match origin {
            Origin::Outside => true,
            Origin::Loopback => is_copy,
            // An authenticated user may resend a message that came here before.
            Origin::Submitted | Origin::Unknown => has_open_copy,
            Origin::PickedUp | Origin::Internal => false,
        };
        for (instance, predecessor) in &predecessors {
            if let Some(predecessor) = self.get(instance, predecessor) {
                predecessor.successors.push(Successor::new(id));
                from_outside |= predecessor.from_outside && !is_put_in;
            }
        }
        let message = self.open(line, id, Origin::Internal);
        message.from_outside = from_outside;
        if is_copy {
            message.claims = Some(message_id);
            add_key(&mut self.by_claim, message_id, line.instance, id);
        } else {
            message.message_id = Some(message_id);
            self.add_key(message_id, line.instance, id);
        }
        Ok(())
    }

    fn queue(
        &mut self,
        line: &Line<'_>,
        id: &str,
        sender: Option<ReversePath>,
        submitted_ids: &SubmittedIds,
        findings: &mut Findings,
    ) {
        let message = self.open(line, id, Origin::Unknown);
        let in_sender =
            sender.as_ref().and_then(Option::as_ref).and_then(|address| submitted_ids.of_return_address(address));
        let in_reply = submitted_ids.get(id, line.at);
        if sender.is_some() {
            message.sender = sender;
        }
        // The logger lost the Message-ID line. The return address or the reply to the message replaces it. From
        // outside, the return address proves nothing, since every recipient has it.
        let in_sender = in_sender.filter(|_| message.origin != Origin::Outside);
        if !message.has_header
            && message.message_id.is_none()
            && let Some(message_id) = in_sender.or(in_reply)
        {
            message.message_id = Some(message_id);
            self.add_key(message_id, line.instance, id);
        }
        let message = self.open(line, id, Origin::Unknown);
        let is_new = !std::mem::replace(&mut message.queued, true);
        if is_new && !message.has_header && message.message_id.is_none() {
            findings.unnamed_at = Some(line.at);
        }
        if let (true, Some(message_id)) = (is_new, message.message_id) {
            let refused = message.take_refused().map(|one| (one.recipient, one.reply)).collect();
            findings.taken.push(Taken { at: line.at, message_id, queue_id: QueueId(id.to_owned()), refused });
        }
    }

    fn reject(&mut self, line: &Line<'_>, id: &str, rejection: Rejection, findings: &mut Findings) {
        let Rejection { of_recipient, sender, recipient, reply, client } = rejection;
        let origin = self.get(line.instance, id).map(|message| message.origin);
        let from_outside = origin.is_none_or(|origin| matches!(origin, Origin::Outside | Origin::Loopback));
        if line.service.is_none()
            && from_outside
            && !reply.is_transient()
            && let Some(recipient) = &recipient
        {
            let sender = sender.as_ref().and_then(Option::as_ref);
            findings.inbound.push(inbound(line, recipient, sender, InboundOutcome::Rejected));
            let stage = if of_recipient { RefusalStage::Recipient } else { RefusalStage::Message };
            let (sender, recipient, reply) = (sender.cloned(), recipient.clone(), reply.clone());
            findings.refusals.push(InboundRefusal { at: line.at, client, sender, recipient, stage, reply });
        }
        match (of_recipient, recipient) {
            (true, Some(recipient)) if id == NO_QUEUE => {
                let early = self.refused_early.entry(session(line)).or_default();
                // The line contains the transaction's sender: refusals with another sender belong to an earlier
                // transaction.
                early.retain(|earlier| earlier.sender == sender);
                if early.len() < MAX_REFUSED_RECIPIENTS {
                    early.push(RefusedRecipient { sender, recipient, reply });
                }
            }
            (true, Some(recipient)) => {
                let message = self.open(line, id, Origin::Unknown);
                if message.refused.len() < MAX_REFUSED_RECIPIENTS {
                    message.refused.push(RefusedRecipient { sender, recipient, reply });
                }
            }
            (true, None) => {}
            (false, _) => {
                // The message never entered the queue, so a next hop that named it accepted its recipient itself.
                if let Some(mut message) = self.close(line.instance, id) {
                    report_answers(&mut message, findings);
                }
            }
        }
    }

    /// Removes a discarded message. Reports it only if it is known as a submitted one (a header before the Message-ID
    /// may have triggered the rule) and is no copy. A message is a copy if it arrives while the submitted one is in
    /// the queue, or if Postfix or a local program injected it.
    fn discard(
        &mut self,
        line: &Line<'_>,
        id: &str,
        sender: Option<ReversePath>,
        response: String,
        submitted_ids: &SubmittedIds,
    ) -> Option<Discarded> {
        let message = self.close(line.instance, id);
        let mut message = message.unwrap_or_else(|| Message::new(line.at, Origin::Unknown));
        self.note_discarded_successor(&message, id);
        message.sender = sender.or(message.sender);
        let is_outside = message.origin == Origin::Outside;
        let by_sender = || submitted_ids.of_return_address(message.sender.as_ref()?.as_ref()?).filter(|_| !is_outside);
        let message_id = message.message_id.or_else(by_sender)?;
        let is_put_in = matches!(message.origin, Origin::Internal | Origin::PickedUp);
        let is_claimed = message.claims.is_some() || self.by_claim.contains_key(&message_id);
        if is_put_in || is_claimed || self.by_message.contains_key(&message_id) {
            return None;
        }
        let refused = message.take_refused().map(|one| one.recipient).collect();
        Some(Discarded { at: line.at, message_id, queue_id: QueueId(id.to_owned()), refused, response })
    }

    /// Marks a discarded message in those that it continues. cleanup(8) responds 250 with the id of a message that it
    /// discards. So a content filter's acceptance of this id proves no delivery.
    fn note_discarded_successor(&mut self, message: &Message, id: &str) {
        let Some(shared) = message.message_id.or(message.claims) else { return };
        for (instance, predecessor) in self.by_message.get(&shared).cloned().unwrap_or_default() {
            let Some(predecessor) = self.get(&instance, &predecessor) else { continue };
            for successor in predecessor.successors.iter_mut().filter(|successor| successor.queue_id == id) {
                successor.is_discarded = true;
            }
        }
    }

    /// Returns the start of the instance that holds this message; `None` while it does not run. If the log does not
    /// mention the message, the most recent start of any running instance counts.
    pub(super) fn runs_since(&self, message_id: MessageId) -> Option<Timestamp> {
        let entered = self.by_message.get(&message_id).map_or(&[][..], Vec::as_slice);
        let is_meant = |name: &String| entered.is_empty() || entered.iter().any(|(instance, _)| instance == name);
        let states =
            self.instance_states.iter().filter(|(name, state)| state.running == Running::Yes && is_meant(name));
        states.map(|(_, state)| state.started_at.unwrap_or(Timestamp::from_millis(0))).max()
    }

    /// Whether the log identifies the message of this id.
    pub(super) fn is_named(&self, id: &str) -> bool {
        let is_named = |message: &Message| message.has_header || message.message_id.is_some();
        self.instances.values().any(|messages| messages.get(id).is_some_and(is_named))
    }

    /// Whether the queue has a message that no line identifies.
    pub(super) fn has_unnamed(&self) -> bool {
        let mut messages = self.instances.values().flat_map(HashMap::values);
        messages.any(|message| message.queued && !message.has_header && message.message_id.is_none())
    }

    /// Tracks starts and stops. Returns a crash for a start without a preceding stop.
    fn note_running(&mut self, line: &Line<'_>, before: Option<Timestamp>) -> Option<Crash> {
        if line.daemon == "postfix-script" {
            // The script also logs lines before the start.
            let state = self.instance_states.get_mut(line.instance);
            if let Some(state) = state.filter(|_| line.text.starts_with("stopping the Postfix mail system")) {
                state.running = Running::Stopping;
            }
            return None;
        }
        if line.daemon != "master" {
            // Daemons may still log while their master stops.
            if !self.instance_states.contains_key(line.instance) {
                let state = InstanceState { running: Running::Yes, started_at: None, deleted_at: None };
                self.instance_states.insert(line.instance.to_owned(), state);
            }
            return None;
        }
        let starts = line.text.starts_with("daemon started");
        if !starts && !line.text.starts_with("terminating on signal") {
            return None;
        }
        let state = self.instance_states.get(line.instance).copied();
        let started_at = if starts { Some(line.at) } else { state.and_then(|state| state.started_at) };
        let running = if starts { Running::Yes } else { Running::No };
        let deleted_at = state.and_then(|state| state.deleted_at);
        self.instance_states.insert(line.instance.to_owned(), InstanceState { running, started_at, deleted_at });
        if !starts {
            return None;
        }
        // The processes that received these messages are gone.
        let messages = self.instances.get_mut(line.instance).into_iter().flat_map(HashMap::values_mut);
        messages.for_each(|message| message.cut_off = true);
        if state.is_some_and(|state| state.running != Running::Yes) {
            self.forget_inodes(line.instance);
        }
        state.filter(|state| state.running != Running::No).map(|state| Crash {
            instance: line.instance.to_owned(),
            was_announced: state.running == Running::Stopping,
            from: before.unwrap_or(line.at),
            to: line.at,
        })
    }

    fn forget_refusals_of_closed_session(&mut self, line: &Line<'_>) {
        // These lines end a session, so its refusals belong to no message.
        let is_session = line.text.starts_with("connect from ") || line.text.starts_with("disconnect from ");
        if is_session && line.daemon == "smtpd" && !self.refused_early.is_empty() {
            self.refused_early.remove(&session(line));
        }
    }
}

/// Returns the key of a listener's session: its instance and process.
fn session(line: &Line<'_>) -> String {
    format!("{}[{}]", line.instance, line.pid)
}

fn add_key(keys: &mut HashMap<MessageId, Vec<Key>>, message_id: MessageId, instance: &str, id: &str) {
    keys.entry(message_id).or_default().push((instance.to_owned(), id.to_owned()));
}

fn remove_key(keys: &mut HashMap<MessageId, Vec<Key>>, message_id: MessageId, instance: &str, id: &str) {
    let Some(of_message) = keys.get_mut(&message_id) else { return };
    of_message.retain(|(of, key)| (of.as_str(), key.as_str()) != (instance, id));
    if of_message.is_empty() {
        keys.remove(&message_id);
    }
}

/// Creates an event for mail from outside to one recipient. Such mail comes through a listener without a service name
/// in master.cf (`postfix/smtpd`, `postfix/postscreen`), from an unauthenticated client. Temporary refusals (4yz) are
/// not counted, since the same message comes again.
fn inbound(
    line: &Line<'_>,
    recipient: &EmailAddress,
    sender: Option<&EmailAddress>,
    outcome: InboundOutcome,
) -> InboundEvent {
    InboundEvent { at: line.at, domain: recipient.domain(), sender_domain: sender.map(EmailAddress::domain), outcome }
}
