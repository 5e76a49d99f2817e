//! Recipients that an errand works on, until their results are on record.
//!
//! A claim ends with its lease, which is right after a crash and wrong while the result only waits for a database that
//! does not write: the recipients would be claimed once more, and get the message twice.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::queue::{QueueKey, QueuedMessage};

/// The recipients of all errands of a courier.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashSet<(QueueKey, u32)>>);

/// Some of them; let go of when this is dropped.
#[derive(Debug)]
pub(super) struct InFlightGuard<'a> {
    of: &'a InFlight,
    recipients: Vec<(QueueKey, u32)>,
}

impl InFlight {
    /// Takes a message's recipients in hand.
    pub(super) fn take(&self, message: &QueuedMessage) -> InFlightGuard<'_> {
        let recipients: Vec<_> = message.recipients.iter().map(|one| (message.key, one.position)).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(&recipients);
        InFlightGuard { of: self, recipients }
    }

    /// Leaves those of the messages that nobody has in hand.
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
