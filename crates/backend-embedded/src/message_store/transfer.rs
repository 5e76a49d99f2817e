//! Appends, copies and moves messages.

use mailapi_imap::Flags;
use mailapi_model::{Blob, EmailAddress, FolderName, Timestamp};
use rusqlite::Connection;

use super::flag_bits::{FlagColumns, to_columns};
use super::id::{FolderId, MailboxId};
use super::renumber::with_room;
use super::{
    Folder, MessageStore, MessageStoreError, NewContent, NewEntry, STEP, content, entry, folder, index, mailbox,
};
use crate::MessageStoreSettings;

/// A message that a client appends.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// Its flags.
    pub flags: Flags,
    /// Time of receipt; `None` means now.
    pub internal_date: Option<Timestamp>,
    /// Its bytes.
    pub message: Blob,
}

/// A parsed message with the columns of its flags.
pub(super) struct Parsed {
    pub(super) content: NewContent,
    flags: FlagColumns,
}

/// Location of an appended message (APPENDUID of RFC 4315).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The folder's UIDVALIDITY.
    pub uid_validity: u32,
    /// The message's UID.
    pub uid: u32,
}

/// Location of several messages, appended together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendedTogether {
    /// The folder's UIDVALIDITY.
    pub uid_validity: u32,
    /// The UIDs, in the order of the messages.
    pub uids: Vec<u32>,
}

/// Location of copied or moved messages (COPYUID of RFC 4315).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transferred {
    /// The target's UIDVALIDITY.
    pub uid_validity: u32,
    /// Old and new UID of each message, both ascending. Messages removed before are missing.
    pub uids: Vec<(u32, u32)>,
}

impl MessageStore {
    /// Appends a message to a folder.
    ///
    /// # Errors
    /// Those of [`MessageStore::append_together`].
    pub async fn append(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        flags: &Flags,
        internal_date: Option<Timestamp>,
        message: impl Into<Blob>,
    ) -> Result<Appended, MessageStoreError> {
        let new = NewMessage { flags: flags.clone(), internal_date, message: message.into() };
        let AppendedTogether { uid_validity, uids } = self.append_together(address, name, vec![new]).await?;
        let uid = uids.first().copied().ok_or(MessageStoreError::NoSuchMessage)?;
        Ok(Appended { uid_validity, uid })
    }

    /// Appends messages to a folder: all or none (RFC 3502).
    ///
    /// # Errors
    /// [`MessageStoreError::TooLong`], [`MessageStoreError::OverQuota`], [`MessageStoreError::TooManyKeywords`],
    /// [`MessageStoreError::NoSuchFolder`], [`MessageStoreError::NoSuchMailbox`].
    pub async fn append_together(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        messages: Vec<NewMessage>,
    ) -> Result<AppendedTogether, MessageStoreError> {
        let mut parsed = Vec::with_capacity(messages.len());
        for message in messages {
            parsed.push(self.parse(message).await?);
        }
        let (settings, now) = (self.settings().clone(), self.clock().now());
        let (address, name) = (address.clone(), name.clone());
        self.write(move |connection, touched| {
            let mailbox = mailbox::expect(connection, &address)?;
            let folder = folder::expect(connection, mailbox.id, &name)?;
            let folder = with_room(connection, folder, now, touched)?;
            let sizes = parsed.iter().map(|message| message.content.size());
            if !mailbox.has_room_for(sizes.fold(0, u64::saturating_add)) {
                return Err(MessageStoreError::OverQuota);
            }
            let store = |message| store(connection, folder.id, message, &settings, now);
            let uids = parsed.iter().map(store).collect::<Result<_, _>>()?;
            touched.mailbox(mailbox.id);
            touched.chores();
            Ok(AppendedTogether { uid_validity: folder.uid_validity, uids })
        })
        .await
    }

    pub(super) async fn parse(&self, new: NewMessage) -> Result<Parsed, MessageStoreError> {
        let settings = self.settings();
        if new.message.len() > settings.max_message_bytes {
            return Err(MessageStoreError::TooLong);
        }
        let flags = to_columns(&new.flags, settings.max_keywords)?;
        let received_at = new.internal_date.unwrap_or_else(|| self.clock().now());
        Ok(Parsed { content: NewContent::appended(new.message, received_at, settings).await?, flags })
    }

    /// Copies messages with flags and date to another folder of the same mailbox: all or none.
    ///
    /// # Errors
    /// [`MessageStoreError::OverQuota`]; [`MessageStoreError::NoSuchFolder`] for either folder.
    pub async fn copy(
        &self,
        source: FolderId,
        uids: Vec<u32>,
        target: &FolderName,
    ) -> Result<Transferred, MessageStoreError> {
        self.transfer(source, uids, target, Mode::Copy).await
    }

    /// Moves messages with flags and date to another folder of the same mailbox (RFC 6851). At any time each
    /// message is in exactly one of the two folders.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`] for either folder.
    pub async fn move_messages(
        &self,
        source: FolderId,
        uids: Vec<u32>,
        target: &FolderName,
    ) -> Result<Transferred, MessageStoreError> {
        self.transfer(source, uids, target, Mode::Move).await
    }

    async fn transfer(
        &self,
        source: FolderId,
        mut uids: Vec<u32>,
        target: &FolderName,
        mode: Mode,
    ) -> Result<Transferred, MessageStoreError> {
        uids.sort_unstable();
        uids.dedup();
        let target = target.clone();
        // A single step is one transaction and needs no task to complete it.
        if uids.len() > STEP {
            let job = move |message_store: Self| async move {
                message_store.transfer_in_steps(source, uids, target, mode).await
            };
            return self.to_its_end(job).await;
        }
        let now = self.clock().now();
        self.write(move |connection, touched| {
            let target = with_room(connection, target_of(connection, source, &target)?, now, touched)?;
            let uids = step(connection, source, &target, &uids, mode, now)?;
            touched.mailbox(target.mailbox);
            Ok(Transferred { uid_validity: target.uid_validity, uids })
        })
        .await
    }

    /// Transfers in steps, with other writers between them. A failed copy is undone; a move keeps its
    /// completed steps.
    async fn transfer_in_steps(
        &self,
        source: FolderId,
        uids: Vec<u32>,
        target: FolderName,
        mode: Mode,
    ) -> Result<Transferred, MessageStoreError> {
        let planned = uids.clone();
        let target = self
            .scan(move |connection| {
                let target = target_of(connection, source, &target)?;
                // Checked for all messages together, before the first step copies any.
                refuse_over_quota(connection, source, target.mailbox, &planned, mode)?;
                Ok::<_, MessageStoreError>(target)
            })
            .await?;
        let (mut done, now) = (Vec::with_capacity(uids.len()), self.clock().now());
        let target = match target.is_used_up() {
            true => self.write(move |connection, touched| with_room(connection, target, now, touched)).await?,
            false => target,
        };
        for uids in uids.chunks(STEP) {
            let (uids, id) = (uids.to_vec(), target.id);
            let stepped = self.write(move |connection, touched| {
                // The folder may have been removed since the last step.
                let target = folder::by_id(connection, id)?;
                touched.mailbox(target.mailbox);
                step(connection, source, &target, &uids, mode, now)
            });
            match (stepped.await, mode) {
                (Ok(uids), _) => done.extend(uids),
                (Err(error), Mode::Copy) => {
                    let copies = done.into_iter().map(|(_, uid)| uid).collect();
                    if let Err(failed) = self.take_back(target.id, copies).await {
                        tracing::warn!(error = %failed, "failed copy could not be undone; some of its messages remain");
                    }
                    return Err(error);
                }
                (Err(error), Mode::Move) => return Err(error),
            }
        }
        Ok(Transferred { uid_validity: target.uid_validity, uids: done })
    }

    /// Removes the messages that a failed copy added to its target (RFC 3501 section 6.4.7).
    async fn take_back(&self, target: FolderId, uids: Vec<u32>) -> Result<(), MessageStoreError> {
        for uids in uids.chunks(STEP) {
            let uids = uids.to_vec();
            let taken = self.write(move |connection, touched| {
                touched.mailbox(folder::by_id(connection, target)?.mailbox);
                folder::remove_entries(connection, target, &uids)
            });
            match taken.await {
                // The copies were removed with their folder.
                Err(MessageStoreError::NoSuchFolder) => return Ok(()),
                taken => taken?,
            }
        }
        Ok(())
    }
}

/// Stores an appended message. Returns its UID.
pub(super) fn store(
    connection: &Connection,
    folder: FolderId,
    new: &Parsed,
    settings: &MessageStoreSettings,
    now: Timestamp,
) -> Result<u32, MessageStoreError> {
    let content = content::insert(connection, &new.content, settings)?;
    index::enqueue(connection, content)?;
    let (internal_date, size) = (new.content.received_at(), new.content.size());
    let recipient = new.content.written_recipient();
    entry::add(
        connection,
        folder,
        &NewEntry { content, flags: &new.flags, internal_date, size, saved_at: now, recipient },
    )
}

/// Returns the folder of this name in the mailbox of `source`.
fn target_of(connection: &Connection, source: FolderId, target: &FolderName) -> Result<Folder, MessageStoreError> {
    folder::expect(connection, folder::by_id(connection, source)?.mailbox, target)
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Copy,
    Move,
}

/// Checks the quota. A move within a mailbox needs no room.
fn refuse_over_quota(
    connection: &Connection,
    source: FolderId,
    mailbox: MailboxId,
    uids: &[u32],
    mode: Mode,
) -> Result<(), MessageStoreError> {
    let has_room = match mode {
        Mode::Copy => mailbox::by_id(connection, mailbox)?.has_room_for(entry::size_of_some(connection, source, uids)?),
        Mode::Move => true,
    };
    if has_room { Ok(()) } else { Err(MessageStoreError::OverQuota) }
}

/// Transfers the existing messages. Returns old and new UIDs.
fn step(
    connection: &Connection,
    source: FolderId,
    target: &Folder,
    uids: &[u32],
    mode: Mode,
    now: Timestamp,
) -> Result<Vec<(u32, u32)>, MessageStoreError> {
    // Fails if the source folder was removed.
    folder::by_id(connection, source)?;
    refuse_over_quota(connection, source, target.mailbox, uids, mode)?;
    let present = entry::present(connection, source, uids)?;
    if present.is_empty() {
        return Ok(Vec::new());
    }
    let count = u32::try_from(present.len()).map_err(|_| MessageStoreError::FolderIsFull)?;
    let numbers = folder::allocate(connection, target.id, count)?;
    entry::copy_some(connection, source, &present, target.id, numbers, now)?;
    if matches!(mode, Mode::Move) {
        folder::remove_entries(connection, source, &present)?;
    }
    Ok(present.into_iter().zip(numbers.first_uid..).collect())
}
