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
pub(super) struct Handed {
    unconfirmed: Mutex<HashMap<String, (MessageId, Timestamp)>>,
    lifetime: Duration,
    most: usize,
    /// The reverse-paths under which messages were handed over, where each has one of its own.
    returns: OnceLock<ReturnAddress>,
}

impl Handed {
    /// Remembers at most this many, for so long.
    pub(super) fn new(lifetime: Duration, most: usize) -> Self {
        Self { unconfirmed: Mutex::default(), lifetime, most, returns: OnceLock::new() }
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
        let mut unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if unconfirmed.len() >= self.most {
            unconfirmed.retain(|_, (_, at)| now.since(*at) < self.lifetime);
        }
        if unconfirmed.len() < self.most {
            unconfirmed.insert(queue_id.0.clone(), (message_id, now));
        }
    }

    /// The log speaks of this id: which message it is. Whoever only looks something up asks, too, and takes nothing
    /// away from whoever reads the log.
    pub(super) fn get(&self, queue_id: &str, at: Timestamp) -> Option<MessageId> {
        let unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        let (message_id, noted_at) = unconfirmed.get(queue_id)?;
        (at.since(*noted_at) < self.lifetime).then_some(*message_id)
    }

    /// The log has confirmed these, and that is saved.
    pub(super) fn forget(&self, confirmed: &[QueueId]) {
        let mut unconfirmed = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        for queue_id in confirmed {
            unconfirmed.remove(&queue_id.0);
        }
    }
}
