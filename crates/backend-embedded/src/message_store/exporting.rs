//! Reads a mailbox for an export.

use std::ops::ControlFlow;

use mailapi_backend::Buffer;
use mailapi_model::{Blob, EmailAddress, FolderName};
use mailapi_store::sqlite::DatabaseSnapshot;

use super::id::{FolderId, MailboxId};
use super::{EntryMeta, Folder, MessageStore, MessageStoreError, buffered, content, entry, folder, mailbox};

/// A mailbox as it was when [`MessageStore::begin_export`] was called. What is moved or removed meanwhile is where it was.
#[derive(Debug)]
pub struct MailboxExport {
    mailbox: MailboxId,
    snapshot: DatabaseSnapshot,
    buffer: Buffer,
    /// Longer messages are buffered.
    inline_bytes: usize,
}

impl MessageStore {
    /// Begins the export of a mailbox. Writers do not wait for it.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`].
    pub async fn begin_export(&self, address: &EmailAddress) -> Result<MailboxExport, MessageStoreError> {
        let mut snapshot = self.snapshot().await?;
        let mailbox = snapshot.read(|connection| mailbox::expect(connection, address))?.id;
        let (buffer, inline_bytes) = (self.buffer().clone(), self.settings().inline_bytes);
        Ok(MailboxExport { mailbox, snapshot, buffer, inline_bytes })
    }
}

impl MailboxExport {
    /// Returns the folders, INBOX first, the others by name.
    ///
    /// # Errors
    /// If the database fails.
    pub fn folders(&mut self) -> Result<Vec<Folder>, MessageStoreError> {
        let mailbox = self.mailbox;
        Ok(self.snapshot.read(|connection| folder::list(connection, mailbox))?)
    }

    /// Returns the names of the subscribed folders.
    ///
    /// # Errors
    /// If the database fails.
    pub fn subscriptions(&mut self) -> Result<Vec<FolderName>, MessageStoreError> {
        let mailbox = self.mailbox;
        Ok(self.snapshot.read(|connection| folder::subscriptions(connection, mailbox))?)
    }

    /// Returns at most `most` entries of a folder above a UID, by ascending UID.
    ///
    /// # Errors
    /// If the database fails.
    pub fn entries_above(
        &mut self,
        folder: FolderId,
        uid: u32,
        most: usize,
    ) -> Result<Vec<EntryMeta>, MessageStoreError> {
        self.snapshot.read(|connection| {
            let mut entries = Vec::new();
            entry::for_each_above(connection, folder, uid, |meta| {
                entries.push(meta);
                Ok(if entries.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
            Ok(entries)
        })
    }

    /// Returns the bytes of a message as IMAP shows them. A long message is in a file meanwhile.
    ///
    /// # Errors
    /// If the database fails, or the disk has no room.
    pub fn message_of(&mut self, entry: &EntryMeta) -> Result<Blob, MessageStoreError> {
        let (buffer, inline_bytes) = (&self.buffer, self.inline_bytes);
        self.snapshot.read(|connection| {
            let layout = content::layout(connection, entry.content)?.delivered_to(entry.delivered_to.as_deref());
            let whole = layout.whole();
            buffered::load(connection, &layout, whole, (buffer, inline_bytes))
        })
    }
}
