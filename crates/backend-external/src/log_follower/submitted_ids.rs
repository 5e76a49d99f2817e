//! What the mail server said of the messages that this process handed over: their queue ids.
//!
//! The log says it, too, and usually first. But a logger that dies takes its last lines with it, and then the reply to
//! the message is the only witness that links the two.

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
    /// The reverse-paths under which messages were handed over, where each has one of its own.
    returns: OnceLock<ReturnAddress>,
}

impl SubmittedIds {
    /// Remembers at most this many, for so long.
    pub(super) fn new(lifetime: Duration, most: usize) -> Self {
        let (unconfirmed, unheard_since) = (Mutex::default(), Mutex::default());
        Self { unconfirmed, lifetime, most, unheard_since, returns: OnceLock::new() }
    }

    /// From now on messages are also known by these addresses. The first ones stay.
    pub(super) fn recognise(&self, returns: ReturnAddress) {
        let _ = self.returns.set(returns);
    }

    /// Which message was handed over with this reverse-path.
    pub(super) fn of_return_address(&self, address: &EmailAddress) -> Option<MessageId> {
        self.returns.get()?.message_id_of(address)
    }

    /// The mail server took a message over under this id.
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

    /// Since when a line is expected; `None` if `was_heard` returns that one arrived since.
    pub(super) fn unheard_since(&self, was_heard: impl FnOnce(Timestamp) -> bool) -> Option<Timestamp> {
        let mut since = self.unheard_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = since.filter(|since| !was_heard(*since));
        *since
    }

    /// The log speaks of this id: which message it is. Whoever only looks something up asks, too, and takes nothing
    /// away from whoever reads the log.
    pub(super) fn get(&self, queue_id: &str, at: Timestamp) -> Option<MessageId> {
        let unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        let (message_id, noted_at) = unconfirmed.get(queue_id)?;
        (at.since(*noted_at) < self.lifetime).then_some(*message_id)
    }

    /// When the reply with this id was read.
    pub(super) fn noted_at(&self, queue_id: &str) -> Option<Timestamp> {
        let unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        unconfirmed.get(queue_id).map(|(_, noted_at)| *noted_at)
    }

    /// The log has confirmed these, and that is saved.
    pub(super) fn forget(&self, confirmed: &[QueueId]) {
        let mut unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        for queue_id in confirmed {
            unconfirmed.remove(&queue_id.0);
        }
    }
}
