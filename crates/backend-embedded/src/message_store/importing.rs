//! Imports messages of another server or of files. The row that remembers a message is in the transaction that stores
//! it, so an import that was interrupted continues where it ended.

use std::time::{Duration, Instant};

use mailapi_imap::Flags;
use mailapi_model::{Blob, EmailAddress, FolderName, Timestamp};
use rusqlite::Connection;

use super::flag_bits::to_fitting_columns;
use super::folder_names::for_import;
use super::id::FolderId;
use super::renumber::with_room;
use super::{
    Folder, MessageStore, MessageStoreError, NewContent, NewEntry, Touched, content, entry, folder, imported, index,
    mailbox,
};

/// The numbers of a folder in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceUids {
    /// UIDVALIDITY.
    pub uid_validity: u32,
    /// The UID of the next message.
    pub uid_next: u32,
}

impl SourceUids {
    /// The highest UIDNEXT that a folder adopts. Half of all UIDs are left then, enough for a message a second for 68 years,
    /// whatever a source claims.
    const HIGHEST: u32 = 1 << 31;

    /// Returns whether a folder can have these numbers and still has UIDs for future messages.
    #[must_use]
    pub const fn leave_room(&self) -> bool {
        self.uid_next <= Self::HIGHEST
    }
}

/// A folder that an import fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportFolder {
    /// The folder.
    pub id: FolderId,
    /// Why it does not have the UIDVALIDITY of the source; `None` if it has, and so the UIDs.
    pub uid_loss: Option<UidLoss>,
}

/// Why a folder has other UIDs than its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UidLoss {
    /// The source has none.
    Unnumbered,
    /// The folder was not new and empty.
    FolderInUse,
    /// The folder received other messages during the import.
    OtherMail,
    /// The UIDVALIDITY of the source is missing, 0, or so far in the future that later folders could not have higher ones.
    BadValidity,
    /// The UIDs of the source leave too few for future messages.
    FewLeft,
    /// A UID of the source is not higher than the one before it.
    Disordered,
}

/// A message to import.
#[derive(Debug, Clone)]
pub struct ImportMessage {
    /// Identifies it in its source.
    pub key: [u8; 16],
    /// Its UID in the source.
    pub uid: Option<u32>,
    /// Its flags.
    pub flags: Flags,
    /// When it arrived; `None` means now.
    pub internal_date: Option<Timestamp>,
    /// Its bytes.
    pub content: Blob,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportOutcome {
    /// It is in the folder with this UID.
    Imported {
        /// The UID.
        uid: u32,
        /// Why that is not the UID of the source; `None` if it is.
        uid_loss: Option<UidLoss>,
        /// Keywords that are left out, since they are too long or too many.
        lost_keywords: u64,
    },
    /// An earlier import has stored it.
    Known,
    /// It was refused.
    Refused(MessageStoreError),
}

/// The pause after a transaction, as a multiple of its duration, while another process writes: the server, to which users
/// send mail.
const REST_FOR_OTHERS: u32 = 2;

/// The longest of these pauses: the duration includes the wait for the lock.
const LONGEST_REST: Duration = Duration::from_millis(100);

impl MessageStore {
    /// Prepares a folder for messages of a source. A missing folder is created and subscribed. A folder that never
    /// had a message gets the UIDVALIDITY of the source, unless that is far in the future: later folders need higher ones.
    /// Nor does it get numbers that would leave few UIDs for future messages.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`], [`MessageStoreError::TooManyFolders`].
    pub async fn prepare_import(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        source: Option<SourceUids>,
    ) -> Result<ImportFolder, MessageStoreError> {
        let (address, name, now) = (address.clone(), name.clone(), self.clock().now());
        let most = self.settings().max_folders;
        self.write(move |connection, touched| {
            let mailbox = mailbox::expect(connection, &address)?.id;
            let folder = with_room(connection, for_import(connection, mailbox, &name, most, now)?, now, touched)?;
            touched.mailbox(mailbox);
            let uid_loss = adopt(connection, &folder, source, now)?;
            Ok(ImportFolder { id: folder.id, uid_loss })
        })
        .await
    }

    /// Returns which of these messages an earlier import has stored in the folder.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn known_imports(&self, folder: FolderId, keys: &[[u8; 16]]) -> Result<Vec<bool>, MessageStoreError> {
        self.read(|connection| {
            Ok(keys.iter().map(|key| imported::is_known(connection, folder, key)).collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Imports messages in one transaction, in the order of their UIDs. A refused one does not affect the others.
    ///
    /// If another process was seen to write meanwhile, this waits before it returns, so that the other gets the larger part
    /// of the time.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`], or if the database fails: then none of the messages is stored.
    pub async fn import(
        &self,
        folder: ImportFolder,
        messages: Vec<ImportMessage>,
    ) -> Result<Vec<ImportOutcome>, MessageStoreError> {
        let (settings, now) = (self.settings().clone(), self.clock().now());
        let others = self.foreign_writes();
        let mut prepared = Vec::with_capacity(messages.len());
        for message in messages {
            if message.content.len() > settings.max_message_bytes {
                prepared.push((message, None));
                continue;
            }
            let received_at = message.internal_date.unwrap_or(now);
            let content = NewContent::appended(message.content.clone(), received_at, &settings).await?;
            prepared.push((message, Some(content)));
        }
        let batch = move |connection: &Connection, touched: &mut Touched| {
            let mut outcomes = Vec::with_capacity(prepared.len());
            for (message, content) in &prepared {
                let outcome = match content {
                    None => Err(MessageStoreError::TooLong),
                    Some(content) => store(connection, touched, folder, message, content, &settings, now),
                };
                outcomes.push(refused_alone(outcome)?);
            }
            Ok::<_, MessageStoreError>(outcomes)
        };
        let began = Instant::now();
        let outcomes = self.write(batch).await?;
        if self.foreign_writes() > others {
            tokio::time::sleep((began.elapsed() * REST_FOR_OTHERS).min(LONGEST_REST)).await;
        }
        Ok(outcomes)
    }

    /// Ends the import of a folder: UIDs that the source has given to removed messages stay unused. Returns why the folder no
    /// longer has the UIDs of the source; `None` if it has.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`].
    pub async fn finish_import(
        &self,
        folder: FolderId,
        source: SourceUids,
    ) -> Result<Option<UidLoss>, MessageStoreError> {
        let now = self.clock().now();
        self.write(move |connection, touched| {
            let folder = folder::by_id(connection, folder)?;
            let after_import = imported::source_uid_next(connection, folder.id)?;
            let Some(after_import) = after_import else { return Ok(Some(UidLoss::OtherMail)) };
            if source.uid_next <= after_import {
                return Ok(None);
            }
            touched.mailbox(folder.mailbox);
            if folder.uid_next == after_import && source.leave_room() {
                imported::set_uid_next(connection, folder.id, source.uid_next)?;
                return Ok(None);
            }
            imported::leave_numbers(connection, &folder, now)?;
            Ok(Some(if source.leave_room() { UidLoss::OtherMail } else { UidLoss::FewLeft }))
        })
        .await
    }
}

/// Seconds by which the UIDVALIDITY of a source may be ahead of the clock: a year. Later folders of all mailboxes need
/// higher values, so a source must not use up the rest of the range.
const MAX_AHEAD: i64 = 365 * 24 * 60 * 60;

/// Adopts the numbers of the source, or keeps those of an earlier import. Returns why it does neither.
fn adopt(
    connection: &Connection,
    folder: &Folder,
    source: Option<SourceUids>,
    now: Timestamp,
) -> Result<Option<UidLoss>, MessageStoreError> {
    let after_import = imported::source_uid_next(connection, folder.id)?;
    let Some(source) = source else { return Ok(Some(UidLoss::Unnumbered)) };
    if after_import.is_some() {
        return Ok((folder.uid_validity != source.uid_validity).then_some(UidLoss::FolderInUse));
    }
    let is_too_high = i64::from(source.uid_validity) > now.as_seconds() + MAX_AHEAD;
    let is_bad = source.uid_validity == 0 || is_too_high;
    if folder.uid_next != 1 {
        return Ok(Some(if is_bad { UidLoss::BadValidity } else { UidLoss::FolderInUse }));
    }
    let loss = match () {
        () if is_bad => UidLoss::BadValidity,
        () if !source.leave_room() => UidLoss::FewLeft,
        () => {
            imported::take_numbers(connection, folder.id, source.uid_validity)?;
            return Ok(None);
        }
    };
    // Other UIDs need another UIDVALIDITY than that of the source, which a mail program may remember.
    if folder.uid_validity == source.uid_validity {
        imported::leave_numbers(connection, folder, now)?;
    }
    Ok(Some(loss))
}

fn store(
    connection: &Connection,
    touched: &mut Touched,
    target: ImportFolder,
    message: &ImportMessage,
    new: &NewContent,
    settings: &crate::MessageStoreSettings,
    now: Timestamp,
) -> Result<ImportOutcome, MessageStoreError> {
    if imported::is_known(connection, target.id, &message.key)? {
        return Ok(ImportOutcome::Known);
    }
    let (columns, lost_keywords) = to_fitting_columns(&message.flags, settings.max_keywords);
    let folder = folder::by_id(connection, target.id)?;
    if !mailbox::by_id(connection, folder.mailbox)?.has_room_for(new.size()) {
        return Err(MessageStoreError::OverQuota);
    }
    let uid_loss = source_uid(connection, &folder, target, message, now)?;
    let content = content::insert(connection, new, settings)?;
    index::enqueue(connection, content)?;
    let (internal_date, size) = (new.received_at(), new.size());
    let recipient = new.written_recipient();
    let row = NewEntry { content, flags: &columns, internal_date, size, saved_at: now, recipient };
    let uid = entry::add(connection, folder.id, &row)?;
    if uid_loss.is_none() {
        imported::set_uid_next(connection, folder.id, uid + 1)?;
    }
    imported::add(connection, folder.id, &message.key)?;
    touched.mailbox(folder.mailbox);
    touched.chores();
    Ok(ImportOutcome::Imported { uid, uid_loss, lost_keywords })
}

/// Sets the next UID of the folder to that of the source. If it cannot be kept, the folder leaves the source's numbers, and
/// this returns the reason.
fn source_uid(
    connection: &Connection,
    folder: &Folder,
    target: ImportFolder,
    message: &ImportMessage,
    now: Timestamp,
) -> Result<Option<UidLoss>, MessageStoreError> {
    if target.uid_loss.is_some() {
        return Ok(target.uid_loss);
    }
    let after_import = imported::source_uid_next(connection, folder.id)?;
    let Some(after_import) = after_import else { return Ok(Some(UidLoss::OtherMail)) };
    let loss = match message.uid {
        _ if folder.uid_next != after_import => UidLoss::OtherMail,
        None => UidLoss::Unnumbered,
        Some(uid) if uid < after_import => UidLoss::Disordered,
        Some(SourceUids::HIGHEST..) => UidLoss::FewLeft,
        Some(uid) => {
            imported::set_uid_next(connection, folder.id, uid)?;
            return Ok(None);
        }
    };
    imported::leave_numbers(connection, folder, now)?;
    Ok(Some(loss))
}

/// Separates errors of one message from those that end the transaction. Refusals come before the first change.
fn refused_alone(outcome: Result<ImportOutcome, MessageStoreError>) -> Result<ImportOutcome, MessageStoreError> {
    match outcome {
        Err(error @ (MessageStoreError::TooLong | MessageStoreError::OverQuota | MessageStoreError::FolderIsFull)) => {
            Ok(ImportOutcome::Refused(error))
        }
        outcome => outcome,
    }
}
