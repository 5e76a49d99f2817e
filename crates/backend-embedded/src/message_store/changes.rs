//! Change notifications, sent after the commit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mailapi_store::ForeignChanges;
use tokio::sync::{Notify, watch};

use super::id::MailboxId;

/// The objects that a transaction changed.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    mailboxes: Vec<MailboxId>,
    feed: bool,
    queue: bool,
    chores: bool,
}

impl Touched {
    pub(crate) fn mailbox(&mut self, mailbox: MailboxId) {
        if !self.mailboxes.contains(&mailbox) {
            self.mailboxes.push(mailbox);
        }
    }

    pub(crate) fn feed(&mut self) {
        self.feed = true;
    }

    pub(crate) fn queue(&mut self) {
        self.queue = true;
    }

    /// Reports work for indexing or collection.
    pub(crate) fn chores(&mut self) {
        self.chores = true;
    }
}

/// The waiting readers of this process.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    mailboxes: Mutex<HashMap<MailboxId, watch::Sender<u64>>>,
    pub(crate) feed: Signal,
    pub(crate) queue: Signal,
    pub(crate) chores: Signal,
}

impl Changes {
    fn notify(&self, touched: &Touched) {
        for (signal, wanted) in
            [(&self.feed, touched.feed), (&self.queue, touched.queue), (&self.chores, touched.chores)]
        {
            if wanted {
                signal.raise();
            }
        }
        let mut mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        for mailbox in &touched.mailboxes {
            // A mailbox without readers loses its entry, so that the map does not grow.
            let watched = mailboxes.get(mailbox).filter(|sender| sender.receiver_count() > 0);
            match watched {
                Some(sender) => sender.send_modify(|count| *count += 1),
                None => drop(mailboxes.remove(mailbox)),
            }
        }
    }

    fn watch(&self, mailbox: MailboxId) -> watch::Receiver<u64> {
        let mut mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        mailboxes.entry(mailbox).or_insert_with(|| watch::channel(0).0).subscribe()
    }
}

/// Wakes all waiting readers, or else the next reader that waits.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    own: Notify,
    /// The count of foreign changes at the last wake-up of a reader.
    foreign_seen: AtomicU64,
}

impl Signal {
    fn raise(&self) {
        // `notify_waiters` wakes the current waiters; `notify_one` stores a permit for a reader between two
        // waits.
        self.own.notify_waiters();
        self.own.notify_one();
    }

    /// Waits until this process raises the signal, or another process changes the file. Cancel-safe.
    pub(crate) async fn raised(&self, foreign: &ForeignChanges) {
        tokio::select! {
            () = self.own.notified() => {}
            count = foreign.after(self.foreign_seen.load(Ordering::Acquire)) => {
                self.foreign_seen.store(count, Ordering::Release);
            }
        }
    }
}

/// Notifies the readers of a transaction's changes when it is dropped.
///
/// It is part of the database job's result, which exists only after the commit. The readers are therefore
/// notified even if the caller was cancelled before it received the result.
pub(crate) struct Announcement {
    touched: Touched,
    changes: Arc<Changes>,
}

impl Announcement {
    pub(crate) fn new(touched: Touched, changes: Arc<Changes>) -> Self {
        Self { touched, changes }
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.changes.notify(&self.touched);
    }
}

/// Waits for changes of a mailbox by this process, or by another one on the same file.
#[derive(Debug)]
pub struct MailboxWatch {
    ours: watch::Receiver<u64>,
    foreign: ForeignChanges,
    foreign_seen: u64,
}

impl MailboxWatch {
    pub(crate) fn new(changes: &Changes, mailbox: MailboxId, foreign: ForeignChanges) -> Self {
        Self { ours: changes.watch(mailbox), foreign_seen: foreign.count(), foreign }
    }

    /// Waits for a possible change since the last call, or since the watch was created. May return
    /// spuriously, but misses no change. Cancel-safe.
    pub async fn changed(&mut self) {
        tokio::select! {
            // The sender lives as long as this watch: `Changes` keeps the entry of a watched mailbox.
            _ = self.ours.changed() => {}
            count = self.foreign.after(self.foreign_seen) => self.foreign_seen = count,
        }
    }

    /// Marks all changes so far as seen. Returns whether there were any.
    pub fn take_pending(&mut self) -> bool {
        let ours = self.ours.has_changed().unwrap_or(true);
        let count = self.foreign.count();
        let foreign = count != self.foreign_seen;
        self.ours.mark_unchanged();
        self.foreign_seen = count;
        ours || foreign
    }
}
