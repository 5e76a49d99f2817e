//! The queue ids from the mail server's replies to submitted messages.
//!
//! The log has the same ids, usually sooner. But a logger that dies loses its last lines. Then only the reply
//! connects the message with its queue id.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use mailapi_model::{EmailAddress, MessageId, QueueId, Timestamp};

use crate::bounces::ReturnAddress;

/// Queue ids that the log has not confirmed yet.
pub(super) struct SubmittedIds {
    unconfirmed: Mutex<HashMap<String, (MessageId, Timestamp)>>,
    lifetime: Duration,
    most: usize,
    /// When the mail server last did something that it logs, if no line arrived since.
    unheard_since: Mutex<Option<Timestamp>>,
    /// The return addresses, if each message has its own reverse-path.
    returns: OnceLock<ReturnAddress>,
}

impl SubmittedIds {
    /// Creates a map for at most `most` ids. Each is kept for `lifetime`.
    pub(super) fn new(lifetime: Duration, most: usize) -> Self {
        let (unconfirmed, unheard_since) = (Mutex::default(), Mutex::default());
        Self { unconfirmed, lifetime, most, unheard_since, returns: OnceLock::new() }
    }

    /// Sets the return addresses by which messages are recognised too. Later calls have no effect.
    pub(super) fn recognise(&self, returns: ReturnAddress) {
        let _ = self.returns.set(returns);
    }

    /// Returns the message that was submitted with this reverse-path.
    pub(super) fn of_return_address(&self, address: &EmailAddress) -> Option<MessageId> {
        self.returns.get()?.message_id_of(address)
    }

    /// Notes that the mail server accepted a message under this queue id.
    pub(super) fn note(&self, queue_id: &QueueId, message_id: MessageId, now: Timestamp) {
        self.expect_line(now);
        let mut unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if unconfirmed.len() >= self.most {
            unconfirmed.retain(|_, (_, at)| now.since(*at) < self.lifetime);
        }
        if unconfirmed.len() < self.most {
            unconfirmed.insert(queue_id.0.clone(), (message_id, now));
        }
    }

    /// Notes that the mail server has just done something that it logs.
    pub(super) fn expect_line(&self, now: Timestamp) {
        self.unheard_since.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now);
    }

    /// Returns the time since which a line is expected; `None` if `was_heard` reports that one arrived since.
    pub(super) fn unheard_since(&self, was_heard: impl FnOnce(Timestamp) -> bool) -> Option<Timestamp> {
        let mut since = self.unheard_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = since.filter(|since| !was_heard(*since));
        *since
    }

    /// Returns the message of a queue id that appears in the log. The id stays in the map until [`SubmittedIds::forget`]:
    /// look-ups share it with the reader of the log.
    pub(super) fn get(&self, queue_id: &str, at: Timestamp) -> Option<MessageId> {
        let unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        let (message_id, noted_at) = unconfirmed.get(queue_id)?;
        (at.since(*noted_at) < self.lifetime).then_some(*message_id)
    }

    /// Returns when the reply with this id was read.
    pub(super) fn noted_at(&self, queue_id: &str) -> Option<Timestamp> {
        let unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        unconfirmed.get(queue_id).map(|(_, noted_at)| *noted_at)
    }

    /// Removes ids that the log has confirmed in a saved state.
    pub(super) fn forget(&self, confirmed: &[QueueId]) {
        let mut unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        for queue_id in confirmed {
            unconfirmed.remove(&queue_id.0);
        }
    }
}
