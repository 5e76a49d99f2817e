//! Who wants to know of changes, and telling them after the commit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mailapi_store::ForeignChanges;
use tokio::sync::{Notify, watch};

use super::id::MailboxId;

/// What a transaction touched.
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

    /// There is something to index or to sweep.
    pub(crate) fn chores(&mut self) {
        self.chores = true;
    }
}

/// The waiting parties of this process.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    mailboxes: Mutex<HashMap<MailboxId, watch::Sender<u64>>>,
    pub(crate) feed: Signal,
    pub(crate) queue: Signal,
    pub(crate) chores: Signal,
}

impl Changes {
    fn tell(&self, touched: &Touched) {
        for (signal, wanted) in
            [(&self.feed, touched.feed), (&self.queue, touched.queue), (&self.chores, touched.chores)]
        {
            if wanted {
                signal.raise();
            }
        }
        let mut mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        for mailbox in &touched.mailboxes {
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

/// Wakes all waiting readers, or the next one that waits if there are none.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    own: Notify,
    /// The count of foreign changes at which a reader was last woken.
    foreign_seen: AtomicU64,
}

impl Signal {
    fn raise(&self) {
        self.own.notify_waiters();
        self.own.notify_one();
    }

    /// Waits until this process raises the signal, or until another process changes the file. Cancel-safe.
    pub(crate) async fn raised(&self, foreign: &ForeignChanges) {
        tokio::select! {
            () = self.own.notified() => {}
            count = foreign.after(self.foreign_seen.load(Ordering::Acquire)) => {
                self.foreign_seen.store(count, Ordering::Release);
            }
        }
    }
}

/// Tells of a transaction when it is dropped.
///
/// It travels in the answer of the database job, which exists only after the commit. So the word goes out also when
/// the caller was cancelled in between and nobody takes the answer.
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
        self.changes.tell(&self.touched);
    }
}

/// Waits for changes of one mailbox, by this process or by another one on the same file.
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

    /// Returns when something may have changed since the last call, or since the watch began. May return too often,
    /// never too seldom. Cancel-safe.
    pub async fn changed(&mut self) {
        tokio::select! {
            // The sender lives as long as this watch: `Changes` keeps the entry of a watched mailbox.
            _ = self.ours.changed() => {}
            count = self.foreign.after(self.foreign_seen) => self.foreign_seen = count,
        }
    }

    /// Takes everything until now as seen; answers whether there was something.
    pub fn take_pending(&mut self) -> bool {
        let ours = self.ours.has_changed().unwrap_or(true);
        let count = self.foreign.count();
        let foreign = count != self.foreign_seen;
        self.ours.mark_unchanged();
        self.foreign_seen = count;
        ours || foreign
    }
}
