//! Messages into folders: append, copy, move.

use mailapi_imap::Flags;
use mailapi_model::{EmailAddress, FolderName, Octets, Timestamp};
use rusqlite::Connection;

use super::flag_bits::to_columns;
use super::id::{FolderId, MailboxId};
use super::{EntryMeta, Folder, Maildrop, MaildropError, NewContent, NewEntry, content, entry, folder, index, mailbox};

/// Where an appended message lies (APPENDUID of RFC 4315).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The folder's UIDVALIDITY.
    pub uid_validity: u32,
    /// The message's UID.
    pub uid: u32,
}

/// Where copied or moved messages lie (COPYUID of RFC 4315).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transferred {
    /// The target's UIDVALIDITY.
    pub uid_validity: u32,
    /// Old and new UID of each message, in ascending order of both. Messages that were gone already are missing.
    pub uids: Vec<(u32, u32)>,
}

impl Maildrop {
    /// Puts a message into a folder.
    ///
    /// # Errors
    /// [`MaildropError::TooLong`], [`MaildropError::OverQuota`], [`MaildropError::TooManyKeywords`],
    /// [`MaildropError::NoSuchFolder`], [`MaildropError::NoSuchMailbox`].
    pub async fn append(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        flags: &Flags,
        internal_date: Option<Timestamp>,
        message: impl Into<Octets>,
    ) -> Result<Appended, MaildropError> {
        let (settings, message) = (self.settings().clone(), message.into());
        if message.len() > settings.max_message_bytes {
            return Err(MaildropError::TooLong);
        }
        let columns = to_columns(flags, settings.max_keywords)?;
        let now = self.clock().now();
        let new = NewContent::appended(message, internal_date.unwrap_or(now), &settings).await?;
        let (address, name) = (address.clone(), name.clone());
        self.write(move |connection, touched| {
            let mailbox = mailbox::expect(connection, &address)?;
            let folder = folder::expect(connection, mailbox.id, &name)?;
            if !mailbox.has_room_for(new.size()) {
                return Err(MaildropError::OverQuota);
            }
            let content = content::insert(connection, &new, &settings)?;
            index::enqueue(connection, content)?;
            let internal_date = new.received_at();
            let entry = NewEntry { content, flags: &columns, internal_date, size: new.size() };
            let uid = entry::add(connection, folder.id, &entry)?;
            touched.mailbox(mailbox.id);
            touched.chores();
            Ok(Appended { uid_validity: folder.uid_validity, uid })
        })
        .await
    }

    /// Copies messages with flags and date into another folder of the same mailbox: all of them or none.
    ///
    /// # Errors
    /// [`MaildropError::OverQuota`]; [`MaildropError::NoSuchFolder`] for either folder.
    pub async fn copy(
        &self,
        source: FolderId,
        uids: Vec<u32>,
        target: &FolderName,
    ) -> Result<Transferred, MaildropError> {
        self.transfer(source, uids, target, Mode::Copy).await
    }

    /// Moves messages with flags and date into another folder of the same mailbox, in one step (RFC 6851).
    ///
    /// # Errors
    /// [`MaildropError::NoSuchFolder`] for either folder.
    pub async fn move_messages(
        &self,
        source: FolderId,
        uids: Vec<u32>,
        target: &FolderName,
    ) -> Result<Transferred, MaildropError> {
        self.transfer(source, uids, target, Mode::Move).await
    }

    async fn transfer(
        &self,
        source: FolderId,
        uids: Vec<u32>,
        target: &FolderName,
        mode: Mode,
    ) -> Result<Transferred, MaildropError> {
        let target = target.clone();
        self.write(move |connection, touched| {
            let mailbox = folder::by_id(connection, source)?.mailbox;
            let target = folder::expect(connection, mailbox, &target)?;
            let entries = collect(connection, source, uids)?;
            if matches!(mode, Mode::Copy) {
                refuse_over_quota(connection, mailbox, &entries)?;
            }
            touched.mailbox(mailbox);
            let uids = put(connection, source, &target, &entries, mode)?;
            Ok(Transferred { uid_validity: target.uid_validity, uids })
        })
        .await
    }
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Copy,
    Move,
}

/// Moves what is in `source`; used for renaming INBOX.
pub(crate) fn move_everything(
    connection: &Connection,
    source: FolderId,
    target: FolderId,
) -> Result<(), MaildropError> {
    let target = folder::by_id(connection, target)?;
    let entries = collect(connection, source, entry::uids(connection, source)?)?;
    put(connection, source, &target, &entries, Mode::Move)?;
    Ok(())
}

/// The entries that are there, by ascending UID, each once.
fn collect(connection: &Connection, folder: FolderId, mut uids: Vec<u32>) -> Result<Vec<EntryMeta>, MaildropError> {
    uids.sort_unstable();
    uids.dedup();
    let found = uids.into_iter().map(|uid| entry::find(connection, folder, uid));
    Ok(found.filter_map(Result::transpose).collect::<Result<_, _>>()?)
}

fn refuse_over_quota(connection: &Connection, mailbox: MailboxId, entries: &[EntryMeta]) -> Result<(), MaildropError> {
    let size = entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
    if mailbox::by_id(connection, mailbox)?.has_room_for(size) { Ok(()) } else { Err(MaildropError::OverQuota) }
}

fn put(
    connection: &Connection,
    source: FolderId,
    target: &Folder,
    entries: &[EntryMeta],
    mode: Mode,
) -> Result<Vec<(u32, u32)>, MaildropError> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let count = u32::try_from(entries.len()).map_err(|_| MaildropError::FolderIsFull)?;
    let numbers = folder::allocate(connection, target.id, count)?;
    let mut uids = Vec::with_capacity(entries.len());
    for (meta, uid) in entries.iter().zip(numbers.first_uid..) {
        // Keywords that were accepted once are not counted again.
        let flags = to_columns(&meta.state.flags, usize::MAX)?;
        let (content, internal_date, size) = (meta.content, meta.internal_date, meta.size);
        let entry = NewEntry { content, flags: &flags, internal_date, size };
        entry::insert(connection, target.id, &entry, uid, numbers.modseq)?;
        if matches!(mode, Mode::Move) {
            entry::remove(connection, source, meta.state.uid)?;
        }
        uids.push((meta.state.uid, uid));
    }
    if matches!(mode, Mode::Move) {
        folder::next_modseq(connection, source)?;
    }
    Ok(uids)
}
