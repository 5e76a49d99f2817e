//! Searches, of which each mailbox has only a few running at a time.
//!
//! A search may read all of a mailbox. One owner with many requests must not take all connections for searches: those
//! of one mailbox wait for each other, and not for those of others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mailapi_store::StoreError;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::id::MailboxId;
use super::{Maildrop, MaildropError};

/// Who searches, and who waits for that.
#[derive(Debug)]
pub(super) struct Turns {
    lines: Mutex<HashMap<MailboxId, Arc<Semaphore>>>,
    at_once: usize,
}

/// The turn of a search; the next one's when it is dropped.
struct Turn {
    turns: Arc<Turns>,
    mailbox: MailboxId,
    held: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Each mailbox has at most so many searches running at once.
    pub(super) fn new(at_once: usize) -> Self {
        Self { lines: Mutex::default(), at_once: at_once.max(1) }
    }

    async fn take(self: &Arc<Self>, mailbox: MailboxId) -> Turn {
        let line = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(lines.entry(mailbox).or_insert_with(|| Arc::new(Semaphore::new(self.at_once))))
        };
        // Made before the wait, so that one that is given up leaves nothing behind either.
        let mut turn = Turn { turns: Arc::clone(self), mailbox, held: None };
        // It is never closed, so there is a permit at the end.
        turn.held = line.acquire_owned().await.ok();
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.turns.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.held.take();
        // Whoever waits holds the line too, and takes the lock to come by it.
        if lines.get(&self.mailbox).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(&self.mailbox);
        }
    }
}

/// A search that runs in steps: each takes the mailbox's turn anew, so that its other searches run in between. Together
/// the steps may take as long as one search may.
pub(crate) struct Steps {
    maildrop: Maildrop,
    mailbox: MailboxId,
    left: Duration,
}

impl Maildrop {
    /// Begins a search through a mailbox.
    pub(crate) fn search_in(&self, mailbox: MailboxId) -> Steps {
        Steps { maildrop: self.clone(), mailbox, left: self.0.sqlite.search_timeout() }
    }
}

impl Steps {
    /// The next step, when its turn has come.
    pub(crate) async fn step<T, F>(&mut self, job: F) -> Result<T, MaildropError>
    where
        F: FnOnce(&Connection) -> Result<T, MaildropError> + Send + 'static,
        T: Send + 'static,
    {
        if self.left.is_zero() {
            return Err(StoreError::Unavailable("the search took too long".to_owned()).into());
        }
        let turn = self.maildrop.0.turns.take(self.mailbox).await;
        let job = move |connection: &Connection| {
            // The turn ends with the step, even if the caller no longer waits for the answer.
            let _turn = turn;
            let began = Instant::now();
            job(connection).map(|answer| (answer, began.elapsed()))
        };
        let (answer, took) = self.maildrop.0.sqlite.search(job).await?;
        self.left = self.left.saturating_sub(took);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_mailbox_has_its_turns_one_after_the_other_and_others_do_not_wait_for_it() {
        let turns = Arc::new(Turns::new(1));
        let (ann, bob) = (MailboxId(1), MailboxId(2));
        let first = turns.take(ann).await;
        assert!(turns.take(ann).now_or_never().is_none(), "one that gives up");
        let mut second = Box::pin(turns.take(ann));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(turns.take(bob).now_or_never().is_some());
        drop(first);
        drop(second.await);
        assert!(turns.lines.lock().unwrap().is_empty(), "nothing is left of them");
    }

    #[tokio::test]
    async fn a_mailbox_has_no_more_turns_than_it_may_have_at_once() {
        let (turns, ann) = (Arc::new(Turns::new(2)), MailboxId(1));
        let (first, second) = (turns.take(ann).now_or_never(), turns.take(ann).now_or_never());
        assert!(first.is_some() && second.is_some() && turns.take(ann).now_or_never().is_none());
        drop(second);
        assert!(turns.take(ann).now_or_never().is_some());
    }
}
