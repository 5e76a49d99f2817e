//! Limits the sessions of each mailbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::message_store::MailboxId;

/// The sessions of a listener by mailbox. Clones share the count.
#[derive(Debug, Clone)]
pub(super) struct SessionLimits {
    max: usize,
    taken: Arc<Mutex<HashMap<MailboxId, Sessions>>>,
    compressed: Arc<Semaphore>,
    ordering: Arc<Semaphore>,
}

/// The sessions of a mailbox.
#[derive(Debug, Default)]
struct Sessions {
    count: usize,
    permits: MailboxPermits,
}

/// What few sessions of a mailbox do at the same time, because each may take much memory.
#[derive(Debug, Clone)]
struct MailboxPermits {
    /// SORT and THREAD.
    ordering: Arc<Semaphore>,
    /// SEARCH in texts.
    searching: Arc<Semaphore>,
    /// Changes of many messages, and reports of changes.
    reporting: Arc<Semaphore>,
    /// Bytes of responses that clients have not read.
    unread: Arc<Semaphore>,
}

impl Default for MailboxPermits {
    fn default() -> Self {
        let mosts = [1, MOST_SEARCHING, 1, MOST_UNREAD];
        let [ordering, searching, reporting, unread] = mosts.map(|most| Arc::new(Semaphore::new(most)));
        Self { ordering, searching, reporting, unread }
    }
}

/// Compressed connections of a listener. Each takes some 350 KiB for its dictionaries.
const MOST_COMPRESSED: usize = 200;

/// SORT and THREAD at the same time, at most one of each mailbox. Each may take 160 MiB.
const MOST_ORDERING: usize = 4;

/// SEARCH in texts of a mailbox at the same time. Each may hold a decoded message.
const MOST_SEARCHING: usize = 4;

/// Bytes of responses that the clients of a mailbox have not read: a report about 300,000 messages has 12 MiB. A session
/// with more waits for the others, or until they are closed because they do not read.
const MOST_UNREAD: usize = 16 * 1024 * 1024;

/// Permit of one SORT or THREAD, of the mailbox and of the listener; released on drop.
pub(super) type OrderPermit = [Option<OwnedSemaphorePermit>; 2];

/// Permit of a compressed connection; released on drop.
pub(super) type CompressionPermit = OwnedSemaphorePermit;

/// Permit of something that few sessions of a mailbox do at the same time, or of unread bytes; released on drop.
pub(super) type MailboxPermit = Option<OwnedSemaphorePermit>;

/// Permit of a session; released on drop.
#[derive(Debug)]
pub(super) struct SessionPermit {
    session_limits: SessionLimits,
    mailbox: MailboxId,
    permits: MailboxPermits,
}

impl SessionLimits {
    pub(super) fn new(max: usize) -> Self {
        let [compressed, ordering] = [MOST_COMPRESSED, MOST_ORDERING].map(|most| Arc::new(Semaphore::new(most)));
        Self { max, taken: Arc::default(), compressed, ordering }
    }

    /// Returns a permit to compress a connection, if one is free.
    pub(super) fn compress(&self) -> Option<CompressionPermit> {
        Arc::clone(&self.compressed).try_acquire_owned().ok()
    }

    /// Returns a permit for a session of a mailbox, if one is free.
    pub(super) fn take(&self, mailbox: MailboxId) -> Option<SessionPermit> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = taken.entry(mailbox).or_default();
        if sessions.count >= self.max {
            return None;
        }
        sessions.count += 1;
        Some(SessionPermit { session_limits: self.clone(), mailbox, permits: sessions.permits.clone() })
    }
}

impl SessionPermit {
    /// Waits for a permit to order messages. The mailbox's own comes first, so that its sessions wait for each other and
    /// not in front of other mailboxes.
    pub(super) async fn order(&self) -> OrderPermit {
        // A semaphore that is never closed always gives one.
        let own = Arc::clone(&self.permits.ordering).acquire_owned().await.ok();
        [own, Arc::clone(&self.session_limits.ordering).acquire_owned().await.ok()]
    }

    /// Waits until few other sessions of the mailbox search in texts.
    pub(super) async fn search(&self) -> MailboxPermit {
        Arc::clone(&self.permits.searching).acquire_owned().await.ok()
    }

    /// Waits until no other session of the mailbox changes many messages or reports changes.
    pub(super) async fn report(&self) -> MailboxPermit {
        Arc::clone(&self.permits.reporting).acquire_owned().await.ok()
    }

    /// Waits until the mailbox has room for unread bytes. A response that is longer than all room takes all.
    pub(super) async fn keep_unread(&self, bytes: usize) -> MailboxPermit {
        let bytes = u32::try_from(bytes.min(MOST_UNREAD)).unwrap_or(u32::MAX);
        Arc::clone(&self.permits.unread).acquire_many_owned(bytes).await.ok()
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        let mut taken = self.session_limits.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sessions) = taken.get_mut(&self.mailbox) {
            sessions.count -= 1;
            if sessions.count == 0 {
                taken.remove(&self.mailbox);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_mailbox_orders_once_at_a_time() {
        let session_limits = SessionLimits::new(9);
        let sessions: Vec<_> = [1, 1, 2, 3, 4, 5].map(|id| session_limits.take(MailboxId(id)).unwrap()).into();
        let first = sessions[0].order().now_or_never().unwrap();
        assert!(sessions[1].order().now_or_never().is_none(), "the same mailbox");
        let others: Vec<_> = sessions[2..5].iter().map(|session| session.order().now_or_never().unwrap()).collect();
        assert!(sessions[5].order().now_or_never().is_none(), "all are taken");
        drop(first);
        assert!(sessions[5].order().now_or_never().is_some());
        drop(others);
    }

    #[test]
    fn reports_searches_and_unread_bytes_have_limits() {
        let session_limits = SessionLimits::new(9);
        let [one, same, other] = [1, 1, 2].map(|id| session_limits.take(MailboxId(id)).unwrap());
        let unread = one.keep_unread(MOST_UNREAD + 1).now_or_never().unwrap();
        assert!(same.keep_unread(1).now_or_never().is_none(), "the same mailbox");
        assert!(other.keep_unread(1).now_or_never().is_some());
        drop(unread);
        let reporting = same.report().now_or_never().unwrap();
        assert!(one.report().now_or_never().is_none(), "one after the other");
        assert!(other.report().now_or_never().is_some());
        let searches: Vec<_> = (0..MOST_SEARCHING).map(|_| one.search().now_or_never().unwrap()).collect();
        assert!(same.search().now_or_never().is_none() && other.search().now_or_never().is_some());
        drop((reporting, searches));
        assert!(one.report().now_or_never().is_some());
        assert!(one.keep_unread(1).now_or_never().is_some());
    }

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
