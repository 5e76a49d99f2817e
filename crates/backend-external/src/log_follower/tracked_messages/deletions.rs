//! Messages that the operator deletes with `postsuper -d`.
//!
//! A deletion by queue id logs a line for the message. `-d ALL` logs only the number of deleted messages. Three facts
//! prove that it deleted a message:
//!
//! * the queue manager reports that the file is gone, and the message was neither held nor requeued since;
//! * or a new file has the inode number of its file (`queue_files`);
//! * or a deferred message is silent: Postfix retries it at least once per `maximal_backoff_time`, so one that stays
//!   silent for longer is gone. For a message on hold, or in its first attempt, silence proves nothing.
//!
//! A delivery agent has the queue file open and continues after its deletion, or after `postsuper -r`. So a message
//! that leaves the queue during an attempt stays open until the attempt has certainly ended:
//!
//! * each of its addresses has a line. An agent that finds no file logs one line for all addresses that it should have
//!   tried, so that line counts for one address;
//! * or the queue manager reports that the file is gone. It does so after the last agent, but only if no address is
//!   left to try: otherwise it drops the message without a line;
//! * or a new file has the inode number (`queue_files`);
//! * or every agent on this machine began later (`agents`);
//! * or Postfix was stopped, which ends the agents, and started again;
//! * or [`LONGEST_ATTEMPT`] has passed, by the log's clock or by this server's.
//!
//! ```text
//!             requeued, during an attempt           deleted, no attempt
//!   QUEUED ------------> FORMER                    ---------------------> GIVEN UP: each recipient without a final
//!      |                   | the attempt has ended                           ^  outcome is bounced, unless a loss
//!      |                   v                                                 |  since its newest line may hide a
//!      |                 CLOSED; under the new id, it is QUEUED              |  delivery (`losses`)
//!      |                                                                     |
//!      +-- deleted, during an attempt --> LEFT: outcomes still count --------+
//!                                            the attempt has ended, and there is no FORMER
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{Discarded, QueueChange};
use mailapi_model::{MessageId, Outcome, QueueId, Timestamp};

use super::super::line::Line;
use super::super::message::{Left, Message, Origin, Waiting};
use super::super::report::{Findings, Gap};
use super::deliveries::give_up;
use super::{Key, Running, TrackedMessages};

/// Postfix's `daemon_timeout`: its watchdog ends a delivery agent that works on one message for longer. The time limits
/// of smtp(8) count per command and per recipient, so their sum has no useful bound.
const LONGEST_ATTEMPT: Duration = Duration::from_hours(5);

impl TrackedMessages {
    /// Closes a message that the operator deleted by its id. During an attempt, it stays open until the attempt ends.
    pub(super) fn delete(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        let is_replaced = self.is_file_replaced(line.instance, id);
        let Some(message) = self.get(line.instance, id) else { return };
        if message.left.is_some() {
            return;
        }
        if is_replaced {
            message.in_attempt = 0;
        }
        let (in_attempt, message_id) = (message.in_attempt, message.message_id);
        if in_attempt == 0 && !self.has_former(message_id) {
            return self.give_up_deleted(line, id, findings);
        }
        let left = Some(Left { at: line.at, is_requeued: false });
        self.get(line.instance, id).into_iter().for_each(|message| message.left = left);
        self.left.push_back((line.instance.to_owned(), id.to_owned()));
    }

    /// Keeps the former state of a requeued message during its attempt: later lines still have its former id.
    pub(super) fn keep_former(&mut self, line: &Line<'_>, id: &str, former: Message) {
        if former.in_attempt > 0 {
            let left = Some(Left { at: line.at, is_requeued: true });
            self.restore(line.instance, id, Message { left, waiting: Vec::new(), ..former });
            self.left.push_back((line.instance.to_owned(), id.to_owned()));
        }
    }

    /// Whether the message of this id was requeued during an attempt that continues.
    pub(super) fn is_former(&self, instance: &str, id: &str) -> bool {
        self.instances.get(instance).and_then(|messages| messages.get(id)).is_some_and(Message::is_former)
    }

    fn has_former(&self, message_id: Option<MessageId>) -> bool {
        let mut keys = message_id.and_then(|message_id| self.by_message.get(&message_id)).into_iter().flatten();
        keys.any(|(instance, id)| self.is_former(instance, id))
    }

    /// Notes the end of an attempt, for one address or for all.
    pub(super) fn end_attempt(
        &mut self,
        line: &Line<'_>,
        id: &str,
        end: impl FnOnce(&mut Message),
        findings: &mut Findings,
    ) {
        let Some(message) = self.get(line.instance, id) else { return };
        end(message);
        if message.in_attempt == 0 && message.left.is_some() {
            self.close_left(line, id, findings);
        }
    }

    /// Ends the attempt of a message whose queue file is gone, as the queue manager found after the last agent.
    pub(super) fn note_gone(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        self.end_attempt(line, id, |message| message.in_attempt = 0, findings);
        // Neither held nor requeued since `-d ALL`.
        if self.get(line.instance, id).is_some_and(|message| message.perhaps_deleted && !message.held) {
            self.delete(line, id, findings);
        }
    }

    /// Closes a message that left the queue during an attempt, now that the attempt has ended.
    fn close_left(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        let Some(message) = self.get(line.instance, id) else { return };
        let (message_id, is_former) = (message.message_id, message.is_former());
        if is_former {
            self.close(line.instance, id);
        } else if !self.has_former(message_id) {
            self.give_up_deleted(line, id, findings);
        }
        if self.has_former(message_id) {
            return;
        }
        // The continuation may have been deleted in the meantime.
        let keys = message_id.and_then(|message_id| self.by_message.get(&message_id)).cloned().unwrap_or_default();
        for (instance, id) in keys {
            if self.get(&instance, &id).is_some_and(|message| message.left.is_some() && message.in_attempt == 0) {
                self.give_up_deleted(&Line { instance: &instance, ..*line }, &id, findings);
            }
        }
    }

    /// Ends the attempts that cannot be in progress any more at `now`. Returns the end of the newest of them; `None` if
    /// there are none.
    pub(in super::super) fn end_long_attempts(&mut self, now: Timestamp, findings: &mut Findings) -> Option<Timestamp> {
        self.end_attempts_until(now.minus(LONGEST_ATTEMPT), None, findings)
    }

    /// Ends the attempts of messages that left the queue until `latest`, at `at` or after the longest time. Returns when
    /// the newest of them would end after that time, for [`Self::end_long_attempts`]; `None` if there are none.
    pub(in super::super) fn end_attempts_until(
        &mut self,
        latest: Timestamp,
        at: Option<Timestamp>,
        findings: &mut Findings,
    ) -> Option<Timestamp> {
        let mut ended_at = None;
        while let Some((instance, id)) = self.left.front().cloned() {
            let left_at = self.get(&instance, &id).and_then(|message| message.left).map(|left| left.at);
            if left_at.is_some_and(|left_at| latest < left_at) {
                break;
            }
            self.left.pop_front();
            if let Some(end) = left_at.map(|left_at| left_at.plus(LONGEST_ATTEMPT)) {
                let at = at.unwrap_or(end);
                let line = Line { at, instance: &instance, service: None, daemon: "", pid: 0, text: "" };
                self.end_attempt(&line, &id, |message| message.in_attempt = 0, findings);
                ended_at = Some(end);
            }
        }
        ended_at
    }

    /// Returns the process ids of the queue managers whose messages left the queue during an attempt; `None` if there
    /// are none, or if one is unknown.
    pub(in super::super) fn queue_managers_of_left(&self) -> Option<Vec<u32>> {
        let ids: Option<Vec<u32>> = self.left.iter().map(|(of, _)| self.queue_managers.get(of).copied()).collect();
        let mut ids = ids.filter(|ids| !ids.is_empty())?;
        ids.sort_unstable();
        ids.dedup();
        Some(ids)
    }

    /// Notes that a delivery agent has the file of a message in the queue, and no other one.
    pub(super) fn note_result(&mut self, line: &Line<'_>, id: &str) {
        if self.left.is_empty() {
            self.results.clear();
        } else if self.get(line.instance, id).is_some_and(|message| message.left.is_none() && message.queued) {
            let result = (line.daemon.to_owned(), line.at);
            self.results.entry(line.pid).or_default().insert(line.instance.to_owned(), result);
        }
    }

    /// Returns when a delivery agent last logged a result for a message in the queue. Instances in different containers
    /// may use one process id, so a result of two of them belongs to neither.
    pub(in super::super) fn result_of(&self, process: u32, program: &str) -> Option<Timestamp> {
        let of_instances = self.results.get(&process).filter(|results| results.len() == 1)?;
        of_instances.values().find(|(of, _)| of == program).map(|(_, at)| *at)
    }

    pub(super) fn note_queue_manager(&mut self, line: &Line<'_>) {
        if line.daemon.ends_with("qmgr") && self.queue_managers.get(line.instance) != Some(&line.pid) {
            self.queue_managers.insert(line.instance.to_owned(), line.pid);
        }
    }

    /// Ends the attempts of an instance that starts after a stop: master(8) ends its delivery agents when it stops.
    pub(super) fn end_attempts_before_start(&mut self, line: &Line<'_>, findings: &mut Findings) {
        let state = self.instance_states.get(line.instance);
        let was_stopped = state.is_some_and(|state| state.running == Running::No);
        if line.daemon != "master" || !line.text.starts_with("daemon started") || !was_stopped {
            return;
        }
        let messages = self.instances.get_mut(line.instance).into_iter().flat_map(HashMap::values_mut);
        messages.for_each(|message| message.in_attempt = 0);
        let (left, others): (Vec<Key>, _) = self.left.drain(..).partition(|(instance, _)| instance == line.instance);
        self.left = others.into();
        for (_, id) in left {
            self.end_attempt(line, &id, |_| (), findings);
        }
    }

    /// Closes a deleted message, and gives up its recipients, except those whose outcome may be missing.
    fn give_up_deleted(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        let Some(mut message) = self.close(line.instance, id) else { return };
        findings.discarded.extend(self.untried(line, id, &mut message));
        message.drop_unsure();
        let deleted =
            |one: Waiting| Waiting { response: Arc::from(QueueChange::CANCELLED), dsn: None, relay: None, ..one };
        give_up(line, id, &mut message, Outcome::Bounced, deleted, findings);
        self.conclude(line, id, message, findings);
    }

    /// Returns a submitted message that was deleted before each of its recipients was tried. The log does not name
    /// the untried ones; the reader of the feed has them. Returns `None` for a part of a message, or while another
    /// part is in the queue.
    fn untried(&self, line: &Line<'_>, id: &str, message: &mut Message) -> Option<Discarded> {
        let message_id = message.message_id.filter(|_| message.claims.is_none())?;
        let tried = message.settled + message.waiting.len() as u64;
        let is_tried = message.recipients.is_some_and(|recipients| tried >= recipients);
        let is_put_in = matches!(message.origin, Origin::Internal | Origin::PickedUp) && message.orig_id.is_none();
        if is_tried || is_put_in || message.is_unsure || self.by_message.contains_key(&message_id) {
            return None;
        }
        let queue_id = QueueId(message.orig_id.clone().unwrap_or_else(|| id.to_owned()));
        let refused = message.take_refused().map(|one| one.recipient).collect();
        Some(Discarded { at: line.at, message_id, queue_id, refused, response: QueueChange::CANCELLED.to_owned() })
    }

    /// Counts the messages that postsuper(1) names, and compares the result with postsuper's own count.
    pub(super) fn note_postsuper(&mut self, line: &Line<'_>, findings: &mut Findings) {
        if line.daemon != "postsuper" {
            return;
        }
        let (pid, named) = self.postsuper;
        let named = if pid == line.pid { named } else { 0 };
        let is_named = [": removed", ": placed on hold"].iter().any(|end| line.text.ends_with(end));
        self.postsuper = (line.pid, named + u64::from(is_named));
        let count = |done: &str| {
            let (count, _) = line.text.strip_prefix(done)?.split_once(' ')?;
            count.parse::<u64>().ok()
        };
        // More deletions than lines: `-d ALL`.
        if count("Deleted: ").is_some_and(|count| count > named) {
            if let Some(state) = self.instance_states.get_mut(line.instance) {
                state.deleted_at = Some(line.at);
            }
            let messages = self.instances.get_mut(line.instance).into_iter().flatten();
            messages.for_each(|(_, message)| message.perhaps_deleted = true);
            self.postsuper = (line.pid, 0);
            self.conclude_replaced(line, findings);
        }
        // The queue files may be missing for this reason.
        if count("Requeued: ").is_some() {
            let messages = self.instances.get_mut(line.instance).into_iter().flatten();
            messages.for_each(|(_, message)| message.perhaps_deleted = false);
        }
        if count("Placed on hold: ").is_some_and(|count| count > named) {
            let messages = self.instances.get_mut(line.instance).into_iter().flatten();
            messages.for_each(|(_, message)| message.held = true);
            self.postsuper = (line.pid, 0);
        }
    }

    /// Closes the messages whose inode numbers were used again before `-d ALL` had ended.
    fn conclude_replaced(&mut self, line: &Line<'_>, findings: &mut Findings) {
        let ids = self.instances.get(line.instance).into_iter().flat_map(HashMap::keys);
        let mut ids: Vec<String> = ids.filter(|id| self.is_file_replaced(line.instance, id)).cloned().collect();
        ids.sort();
        for id in ids {
            self.conclude_file(line, &id, findings);
        }
    }

    /// Gives up the messages that `-d ALL` deleted, once their silence proves it.
    pub(in super::super) fn conclude_deletion(
        &mut self,
        line: &Line<'_>,
        retry_time: Duration,
        gaps: &[Gap],
        findings: &mut Findings,
    ) {
        let Some(state) = self.instance_states.get_mut(line.instance) else { return };
        let Some(deleted_at) = state.deleted_at.filter(|_| state.running == Running::Yes) else { return };
        // While Postfix was stopped it retried nothing, so the silence counts from its start.
        let since = |at: Timestamp| state.started_at.map_or(at, |started_at| started_at.max(at));
        if line.at < since(deleted_at).plus(retry_time) {
            return;
        }
        let (mut gone, mut next): (Vec<String>, Option<Timestamp>) = (Vec::new(), None);
        for (id, message) in self.instances.get(line.instance).into_iter().flatten() {
            let silence = if message.in_attempt == 0 { retry_time } else { retry_time.max(LONGEST_ATTEMPT) };
            let end = since(message.last_seen).plus(silence);
            match may_be_deleted(message, gaps) {
                true if line.at < end => next = Some(next.map_or(end, |next| next.min(end))),
                true if is_deferred(message) => gone.push(id.clone()),
                _ => {}
            }
        }
        // A line of an attempt that was in progress at the deletion ends the silence, which then counts anew.
        state.deleted_at = next.map(|next| next.minus(retry_time));
        gone.sort();
        for id in gone {
            self.get(line.instance, &id).into_iter().for_each(|message| message.in_attempt = 0);
            self.delete(line, &id, findings);
        }
    }
}

/// Whether `-d ALL` may have deleted a message. A gap may hide its last line.
fn may_be_deleted(message: &Message, gaps: &[Gap]) -> bool {
    let is_whole = gaps.iter().all(|gap| gap.to < message.last_seen);
    message.perhaps_deleted && !message.held && message.left.is_none() && is_whole
}

/// Whether each recipient was tried, and one waits for the next attempt.
fn is_deferred(message: &Message) -> bool {
    let tried = message.settled + message.waiting.len() as u64;
    !message.waiting.is_empty() && message.recipients.is_some_and(|recipients| tried >= recipients)
}
