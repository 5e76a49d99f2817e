//! Limits the concurrent searches of each mailbox.
//!
//! A search may read a whole mailbox, and an owner with many requests must not occupy all search connections.
//! Searches therefore wait only for those of the same mailbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mailapi_store::StoreError;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::id::MailboxId;
use super::{MessageStore, MessageStoreError};

/// The semaphores of mailboxes with active or waiting searches.
#[derive(Debug)]
pub(super) struct SearchPermits {
    semaphores: Mutex<HashMap<MailboxId, Arc<Semaphore>>>,
    at_once: usize,
}

/// The permit of a search; released on drop.
struct SearchPermit {
    search_permits: Arc<SearchPermits>,
    mailbox: MailboxId,
    held: Option<OwnedSemaphorePermit>,
}

impl SearchPermits {
    /// Allows `at_once` concurrent searches per mailbox.
    pub(super) fn new(at_once: usize) -> Self {
        Self { semaphores: Mutex::default(), at_once: at_once.max(1) }
    }

    async fn take(self: &Arc<Self>, mailbox: MailboxId) -> SearchPermit {
        let semaphore = {
            let mut semaphores = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(semaphores.entry(mailbox).or_insert_with(|| Arc::new(Semaphore::new(self.at_once))))
        };
        // Created before the wait, so that a cancelled wait also removes the semaphore.
        let mut permit = SearchPermit { search_permits: Arc::clone(self), mailbox, held: None };
        // The semaphore is never closed, so this yields a permit.
        permit.held = semaphore.acquire_owned().await.ok();
        permit
    }
}

impl Drop for SearchPermit {
    fn drop(&mut self) {
        let mut semaphores = self.search_permits.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        self.held.take();
        // A waiting search holds a clone of the semaphore, which it can only get under this lock.
        if semaphores.get(&self.mailbox).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            semaphores.remove(&self.mailbox);
        }
    }
}

/// A search in steps. Each step acquires a permit again, so that the mailbox's other searches run in between.
/// All steps together share the time limit of one search.
pub(crate) struct Steps {
    message_store: MessageStore,
    mailbox: MailboxId,
    left: Duration,
}

impl MessageStore {
    /// Starts a search through a mailbox.
    pub(crate) fn search_in(&self, mailbox: MailboxId) -> Steps {
        Steps { message_store: self.clone(), mailbox, left: self.0.sqlite.search_timeout() }
    }
}

impl Steps {
    /// Runs the next step as soon as it gets a permit.
    pub(crate) async fn step<T, F>(&mut self, job: F) -> Result<T, MessageStoreError>
    where
        F: FnOnce(&Connection) -> Result<T, MessageStoreError> + Send + 'static,
        T: Send + 'static,
    {
        if self.left.is_zero() {
            return Err(StoreError::Unavailable("the search took too long".to_owned()).into());
        }
        let permit = self.message_store.0.search_permits.take(self.mailbox).await;
        let job = move |connection: &Connection| {
            // The permit ends with the step, even if the caller no longer waits for the result.
            let _permit = permit;
            let began = Instant::now();
            job(connection).map(|answer| (answer, began.elapsed()))
        };
        let (answer, took) = self.message_store.0.sqlite.search(job).await?;
        self.left = self.left.saturating_sub(took);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn searches_of_a_mailbox_queue_and_other_mailboxes_do_not_wait() {
        let search_permits = Arc::new(SearchPermits::new(1));
        let (ann, bob) = (MailboxId(1), MailboxId(2));
        let first = search_permits.take(ann).await;
        assert!(search_permits.take(ann).now_or_never().is_none(), "a search that is cancelled while it waits");
        let mut second = Box::pin(search_permits.take(ann));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(search_permits.take(bob).now_or_never().is_some());
        drop(first);
        drop(second.await);
        assert!(search_permits.semaphores.lock().unwrap().is_empty(), "finished searches leave no semaphore");
    }

    #[tokio::test]
    async fn a_mailbox_has_no_more_turns_than_it_may_have_at_once() {
        let (search_permits, ann) = (Arc::new(SearchPermits::new(2)), MailboxId(1));
        let (first, second) = (search_permits.take(ann).now_or_never(), search_permits.take(ann).now_or_never());
        assert!(first.is_some() && second.is_some() && search_permits.take(ann).now_or_never().is_none());
        drop(second);
        assert!(search_permits.take(ann).now_or_never().is_some());
    }
}
