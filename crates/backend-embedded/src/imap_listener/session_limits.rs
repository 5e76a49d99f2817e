//! Limits the sessions of each mailbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::message_store::MailboxId;

/// The sessions of a listener by mailbox. Clones share the count.
#[derive(Debug, Clone)]
pub(super) struct SessionLimits {
    max: usize,
    taken: Arc<Mutex<HashMap<MailboxId, usize>>>,
}

/// Permit of a session; released on drop.
#[derive(Debug)]
pub(super) struct SessionPermit {
    session_limits: SessionLimits,
    mailbox: MailboxId,
}

impl SessionLimits {
    pub(super) fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// Returns a permit for a session of a mailbox, if one is free.
    pub(super) fn take(&self, mailbox: MailboxId) -> Option<SessionPermit> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(mailbox).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(SessionPermit { session_limits: self.clone(), mailbox })
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        let mut taken = self.session_limits.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.mailbox) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.mailbox);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_is_free_again_when_its_session_ends() {
        let session_limits = SessionLimits::new(1);
        let (ann, bob) = (MailboxId(1), MailboxId(2));
        let permit = session_limits.take(ann).unwrap();
        assert!(session_limits.take(ann).is_none());
        assert!(session_limits.take(bob).is_some());
        drop(permit);
        assert!(session_limits.take(ann).is_some());
        assert!(session_limits.taken.lock().unwrap().is_empty());
    }
}
