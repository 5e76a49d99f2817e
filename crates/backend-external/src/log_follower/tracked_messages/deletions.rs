//! Messages that the operator deletes with `postsuper -d`.
//!
//! A deletion by queue id logs a line for the message. `-d ALL` logs only the number of deleted messages. For a
//! deferred message, later silence is proof: Postfix retries it at least once per `maximal_backoff_time`, so one that
//! stays silent for longer is gone. For a message on hold, or in its first attempt, silence proves nothing.

use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::Discarded;
use mailapi_model::{Outcome, QueueId, Timestamp};

use super::super::line::Line;
use super::super::message::{Message, Origin, Waiting};
use super::super::report::{Findings, Gap};
use super::deliveries::give_up;
use super::{Running, TrackedMessages};

/// The response reported for a recipient that still waited.
const DELETED: &str = "deleted from the queue by the operator";

impl TrackedMessages {
    /// Closes a message that the operator deleted by its id.
    pub(super) fn delete(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        let Some(mut message) = self.close(line.instance, id) else { return };
        findings.discarded.extend(self.untried(line, id, &mut message));
        let deleted = |one: Waiting| Waiting { response: Arc::from(DELETED), dsn: None, relay: None, ..one };
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
        if is_tried || is_put_in || self.by_message.contains_key(&message_id) {
            return None;
        }
        let queue_id = QueueId(message.orig_id.clone().unwrap_or_else(|| id.to_owned()));
        let refused = message.take_refused().map(|one| one.recipient).collect();
        Some(Discarded { at: line.at, message_id, queue_id, refused, response: DELETED.to_owned() })
    }

    /// Counts the messages that postsuper(1) names, and compares the result with postsuper's own count.
    pub(super) fn note_postsuper(&mut self, line: &Line<'_>) {
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
            self.postsuper = (line.pid, 0);
        }
        if count("Placed on hold: ").is_some_and(|count| count > named) {
            let messages = self.instances.get_mut(line.instance).into_iter().flatten();
            messages.for_each(|(_, message)| message.held = true);
            self.postsuper = (line.pid, 0);
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
        let since = state.started_at.map_or(deleted_at, |started_at| started_at.max(deleted_at));
        if line.at < since.plus(retry_time) {
            return;
        }
        state.deleted_at = None;
        let messages = self.instances.get(line.instance).into_iter().flatten();
        let gone = messages.filter(|(_, message)| is_silent(message, deleted_at, gaps)).map(|(id, _)| id.clone());
        let mut gone: Vec<String> = gone.collect();
        gone.sort();
        for id in gone {
            self.delete(line, &id, findings);
        }
    }
}

/// Whether a deferred message has been silent since the deletion. A gap may hide its last line.
fn is_silent(message: &Message, deleted_at: Timestamp, gaps: &[Gap]) -> bool {
    let tried = message.settled + message.waiting.len() as u64;
    let is_deferred = !message.waiting.is_empty() && message.recipients.is_some_and(|recipients| tried >= recipients);
    let is_whole = gaps.iter().all(|gap| gap.to < message.last_seen);
    is_deferred && !message.held && message.last_seen <= deleted_at && is_whole
}
