//! The in-flight set: recipients of active delivery attempts, until their results are recorded.
//!
//! A claim ends with its lease, which is right after a crash. It is wrong while a result only waits for a
//! failing database: the recipients would be claimed again and get the message twice.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::queue::{QueueKey, QueuedMessage};

/// The in-flight recipients of a delivery agent.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashSet<(QueueKey, u32)>>);

/// In-flight recipients of one attempt; removed on drop.
#[derive(Debug)]
pub(super) struct InFlightGuard<'a> {
    of: &'a InFlight,
    recipients: Vec<(QueueKey, u32)>,
}

impl InFlight {
    /// Adds a message's recipients to the set.
    pub(super) fn take(&self, message: &QueuedMessage) -> InFlightGuard<'_> {
        let recipients: Vec<_> = message.recipients.iter().map(|one| (message.key, one.position)).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(&recipients);
        InFlightGuard { of: self, recipients }
    }

    /// Returns whether the recipient is in the set.
    pub(super) fn contains(&self, key: QueueKey, position: u32) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&(key, position))
    }

    /// Removes in-flight recipients from claimed messages.
    pub(super) fn leave_free(&self, messages: Vec<QueuedMessage>) -> Vec<QueuedMessage> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free = messages.into_iter().map(|mut message| {
            message.recipients.retain(|one| !held.contains(&(message.key, one.position)));
            message
        });
        free.filter(|message| !message.recipients.is_empty()).collect()
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        let mut held = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        for recipient in &self.recipients {
            held.remove(recipient);
        }
    }
}
