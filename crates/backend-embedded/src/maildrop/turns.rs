//! Searches, of which each mailbox has one running at a time.
//!
//! A search may read all of a mailbox. One owner with many requests must not take all connections for searches: those
//! of one mailbox wait for each other, and not for those of others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use mailapi_store::StoreError;
use rusqlite::Connection;
use tokio::sync::{Mutex as Line, OwnedMutexGuard};

use super::Maildrop;
use super::id::MailboxId;

/// Who searches, and who waits for that.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<MailboxId, Arc<Line<()>>>>);

/// The turn of a search; the next one's when it is dropped.
struct Turn {
    turns: Arc<Turns>,
    mailbox: MailboxId,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    async fn take(self: &Arc<Self>, mailbox: MailboxId) -> Turn {
        let line = Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(mailbox).or_default());
        // Made before the wait, so that one that is given up leaves nothing behind either.
        let mut turn = Turn { turns: Arc::clone(self), mailbox, held: None };
        turn.held = Some(line.lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.held.take();
        // Whoever waits holds the line too, and takes the lock to come by it.
        if lines.get(&self.mailbox).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(&self.mailbox);
        }
    }
}

impl Maildrop {
    /// A search through a mailbox, when its turn has come.
    pub(crate) async fn search_in<T, E, F>(&self, mailbox: MailboxId, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let turn = self.0.turns.take(mailbox).await;
        let job = move |connection: &Connection| {
            // It ends with the search, also when nobody waits for the answer any longer.
            let _turn = turn;
            job(connection)
        };
        self.0.sqlite.search(job).await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_mailbox_has_one_turn_at_a_time_and_others_do_not_wait_for_it() {
        let turns = Arc::new(Turns::default());
        let (ann, bob) = (MailboxId(1), MailboxId(2));
        let first = turns.take(ann).await;
        assert!(turns.take(ann).now_or_never().is_none(), "one that gives up");
        let mut second = Box::pin(turns.take(ann));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(turns.take(bob).now_or_never().is_some());
        drop(first);
        drop(second.await);
        assert!(turns.0.lock().unwrap().is_empty(), "nothing is left of them");
    }
}
