//! The message store: mailboxes, folders and messages in one SQLite file.
//!
//! A message's bytes are stored once ([`ContentId`]), regardless of the number of folders; a folder contains
//! entries that refer to them. Triggers in `migrations/` maintain counters and reference counts, so that no
//! code path can forget them. Every change of a folder's entries raises its modification sequence (RFC 7162).
//! UIDs, UIDVALIDITYs and row numbers are never reused. [`MessageStore::collect_garbage_once`] removes unreferenced bytes,
//! and [`MessageStore::index_once`] indexes texts; both run in the background ([`MessageStore::maintain`]).

pub(crate) mod alias;
mod answers;
mod blob;
mod buffered;
mod changes;
pub(crate) mod content;
mod drafts;
pub(crate) mod entry;
mod error;
pub(crate) mod expanded;
mod exporting;
mod expunge;
mod flag_bits;
mod flagging;
pub(crate) mod folder;
mod folder_names;
mod follower;
mod garbage;
pub(crate) mod hourly;
mod id;
mod import_progress;
mod imported;
mod importing;
mod index;
mod inspecting;
mod listing;
pub(crate) mod mailbox;
mod mailboxes;
mod maintenance;
mod people;
pub(crate) mod pieces;
mod provisioning;
mod quarantine;
mod reading;
mod recent;
mod removed;
pub(crate) mod renumber;
mod reread;
mod restored;
pub(crate) mod rules;
mod schema;
mod search;
mod search_permits;
mod sts_policies;
mod transfer;
mod vanished;

use std::sync::Arc;

use mailapi_backend::{Buffer, FairPermit, FairPermits};
use mailapi_model::{Clock, EmailAddress, Entropy};
use mailapi_store::sqlite::{DatabaseSnapshot, Sqlite};
use mailapi_store::{EnlistedRecord, StoreError};
use rusqlite::Connection;
use tokio::sync::Semaphore;

pub(crate) use answers::{Answer, WaitingAnswer, add as add_answer};
pub(crate) use changes::{Announcement, Changes, Signal, Touched};
pub(crate) use content::{NewContent, unreadable};
pub(crate) use entry::{EntryRecipient, NewEntry};
pub(crate) use flag_bits::{FlagColumns, to_columns as to_flag_columns};
pub(crate) use folder_names::for_rule as folder_for_rule;
pub(crate) use follower::InAccountsFile;
pub(crate) use index::enqueue as enqueue_for_index;
pub(crate) use inspecting::Inspected;
pub(crate) use sts_policies::StoredPolicy;

pub use changes::MailboxWatch;
pub use content::Layout;
pub use entry::{EntryMeta, EntryState};
pub use error::MessageStoreError;
pub use exporting::MailboxExport;
pub use flagging::{FlagChange, Flagged};
pub use folder::{Folder, FolderSnapshot};
pub use id::{ContentId, FolderId, MailboxId};
pub use importing::{ImportFolder, ImportMessage, ImportOutcome, SourceUids, UidLoss};
pub use renumber::BrokenMailbox;
pub use restored::pass_over_used_numbers;
pub use schema::MAIL_SCHEMA;
use search_permits::SearchPermits;
pub use transfer::{Appended, AppendedTogether, NewMessage, Transferred};

use crate::accept::TurnClaim;
use crate::{MessageStoreSettings, feed};

/// Number of messages that a bulk command changes in one transaction. Other writers wait a few milliseconds
/// for such a transaction, and run between two of them.
pub(crate) const STEP: usize = 200;

/// Number of such transactions that a command submits at once. Their changes become durable together, so that the command
/// waits less for the disk.
pub(crate) const STEPS_AT_ONCE: usize = 4;

/// A handle on the message store; clones share it.
#[derive(Clone)]
pub struct MessageStore(Arc<Inner>);

struct Inner {
    sqlite: Sqlite,
    settings: MessageStoreSettings,
    feed_name: String,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    changes: Arc<Changes>,
    search_permits: Arc<SearchPermits>,
    buffer: Buffer,
    /// Limits the bytes of long messages that are opened at once.
    opening: Semaphore,
    /// Of messages for many mailboxes.
    wide_turns: FairPermits<TurnClaim>,
}

impl MessageStore {
    /// Opens the store and migrates its tables. The file may contain other tables.
    ///
    /// # Errors
    /// If the database fails, or a newer version wrote it.
    pub async fn open(
        sqlite: Sqlite,
        settings: MessageStoreSettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        buffer: Buffer,
    ) -> Result<Self, StoreError> {
        sqlite.migrate(MAIL_SCHEMA.component, MAIL_SCHEMA.migrations, clock.now()).await?;
        let search_permits = Arc::new(SearchPermits::new(settings.mailbox_searches));
        let opening = Semaphore::new(reading::OPENED_AT_ONCE as usize);
        Ok(Self(Arc::new(Inner {
            sqlite,
            feed_name: feed::name(settings.node.as_deref()),
            settings,
            clock,
            entropy,
            changes: Arc::default(),
            search_permits,
            buffer,
            opening,
            wide_turns: FairPermits::new(1),
        })))
    }

    /// Returns the number of a mailbox.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`].
    pub async fn mailbox(&self, address: &EmailAddress) -> Result<MailboxId, MessageStoreError> {
        self.read(|connection| Ok(mailbox::expect(connection, address)?.id)).await
    }

    /// Starts to watch a mailbox; all later changes are reported.
    #[must_use]
    pub fn watch(&self, mailbox: MailboxId) -> MailboxWatch {
        MailboxWatch::new(&self.0.changes, mailbox, self.0.sqlite.foreign_changes())
    }

    /// Makes domains and mailboxes change together with the accounts in the same file.
    pub(crate) fn follow_accounts(&self) {
        let (clock, changes) = (Arc::clone(&self.0.clock), Arc::clone(&self.0.changes));
        self.0.sqlite.follow_accounts(Arc::new(follower::Follower { clock, changes }));
    }

    pub(crate) fn feed_name(&self) -> &str {
        &self.0.feed_name
    }

    pub(crate) fn settings(&self) -> &MessageStoreSettings {
        &self.0.settings
    }

    /// Returns the buffer for long messages in transit.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.0.buffer
    }

    /// Returns the maximum size of a message in bytes.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.0.settings.max_message_bytes
    }

    pub(crate) fn opening(&self) -> &Semaphore {
        &self.0.opening
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.0.entropy
    }

    pub(crate) async fn snapshot(&self) -> Result<DatabaseSnapshot, StoreError> {
        self.0.sqlite.snapshot().await
    }

    pub(crate) fn writes_begun(&self) -> u64 {
        self.0.sqlite.writes_begun()
    }

    /// Returns the number of times that other processes were seen to have changed the file.
    pub(crate) fn foreign_writes(&self) -> u64 {
        self.0.sqlite.foreign_changes().count()
    }

    /// Waits for a signal of this process, or for a change by another one. May wake spuriously, but misses no
    /// change.
    pub(crate) async fn raised(&self, signal: impl FnOnce(&Changes) -> &Signal) {
        signal(&self.0.changes).raised(&self.0.sqlite.foreign_changes()).await;
    }

    /// Waits for the turn of a message for many mailboxes.
    pub(crate) async fn wide_turn(&self, claim: TurnClaim) -> FairPermit<TurnClaim> {
        self.0.wide_turns.take(claim).await
    }

    /// Runs a transaction, and notifies the readers of its changes after the commit.
    pub(crate) async fn write<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection, &mut Touched) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let changes = Arc::clone(&self.0.changes);
        let job = move |connection: &Connection| announced(job, connection, &changes);
        // Dropping the announcement notifies the readers.
        let (answer, _announcement) = self.0.sqlite.write(job).await?;
        Ok(answer)
    }

    /// Like [`MessageStore::write`], for a job that makes room on a full disk. It may be run twice.
    pub(crate) async fn write_freeing<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: Fn(&Connection, &mut Touched) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let changes = Arc::clone(&self.0.changes);
        let job = move |connection: &Connection| announced(&job, connection, &changes);
        // Dropping the announcement notifies the readers.
        let (answer, _announcement) = self.0.sqlite.write_freeing(job).await?;
        Ok(answer)
    }

    /// Returns whether this record belongs into the store's own file.
    pub(crate) fn is_file_of(&self, record: &EnlistedRecord) -> bool {
        record.is_in(&self.0.sqlite)
    }

    /// Returns whether mailboxes change together with the accounts in the same file.
    pub(crate) fn follows_accounts(&self) -> bool {
        self.0.sqlite.is_followed()
    }

    /// Waits until everything read here is durable, if the accounts are in another database.
    pub(crate) async fn until_durable(&self) -> Result<(), StoreError> {
        if self.follows_accounts() { Ok(()) } else { self.0.sqlite.flushed().await }
    }

    /// Checks that the database still stores durably, and has room.
    pub(crate) fn keeps(&self) -> Result<(), StoreError> {
        self.0.sqlite.keeps()?;
        self.0.sqlite.has_room()
    }

    /// Runs a job of many transactions to its end, even if the caller stops waiting: a part of it must not
    /// remain.
    async fn to_its_end<T, F>(&self, job: impl FnOnce(Self) -> F) -> Result<T, MessageStoreError>
    where
        F: Future<Output = Result<T, MessageStoreError>> + Send + 'static,
        T: Send + 'static,
    {
        tokio::spawn(job(self.clone())).await.unwrap_or(Err(MessageStoreError::Store(StoreError::Panicked)))
    }

    /// Runs a short read.
    pub(crate) async fn read<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E>,
        E: From<StoreError>,
    {
        self.0.sqlite.read(job).await
    }

    /// Runs a short read of a single statement.
    pub(crate) async fn read_one<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E>,
        E: From<StoreError>,
    {
        self.0.sqlite.read_one(job).await
    }

    /// Runs a long read on a blocking thread.
    pub(crate) async fn scan<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.0.sqlite.scan(job).await
    }
}

/// Runs a job; returns its answer with the announcement of its changes.
fn announced<T, E>(
    job: impl FnOnce(&Connection, &mut Touched) -> Result<T, E>,
    connection: &Connection,
    changes: &Arc<Changes>,
) -> Result<(T, Announcement), E> {
    let mut touched = Touched::default();
    let answer = job(connection, &mut touched)?;
    Ok((answer, Announcement::new(touched, Arc::clone(changes))))
}

/// Returns the error for a stored value that cannot be read.
pub(crate) fn damaged(what: &str) -> StoreError {
    StoreError::Unexpected(format!("{what} in the message store is damaged"))
}
