//! Stores and removes drafts.

use mailapi_backend::{NewDraft, SavedDraft};
use mailapi_imap::{Flags, SystemFlag};
use mailapi_model::{EmailAddress, FolderName};
use rusqlite::Connection;

use super::id::FolderId;
use super::renumber::with_room;
use super::transfer::{NewMessage, store};
use super::{MessageStore, MessageStoreError, entry, folder, mailbox};

/// Returns the name of the folder for drafts, if there is one.
pub(super) fn folder_name(
    connection: &Connection,
    address: &EmailAddress,
) -> Result<Option<FolderName>, MessageStoreError> {
    let mailbox = mailbox::expect(connection, address)?;
    Ok(folder::find_special(connection, mailbox.id, folder::DRAFTS)?.map(|(_, name)| name))
}

impl MessageStore {
    /// Stores a draft instead of the one that it replaces, in one transaction.
    pub(super) async fn put_draft(
        &self,
        address: &EmailAddress,
        NewDraft { message, replaces, .. }: NewDraft,
    ) -> Result<SavedDraft, MessageStoreError> {
        let flags = Flags::from_words([SystemFlag::Draft.as_str(), SystemFlag::Seen.as_str()]);
        let parsed = self.parse(NewMessage { flags, internal_date: None, message }).await?;
        let (settings, now, address) = (self.settings().clone(), self.clock().now(), address.clone());
        self.write(move |connection, touched| {
            let id = mailbox::expect(connection, &address)?.id;
            let (target, name) = folder::special(connection, id, folder::DRAFTS, now)?;
            // Removed first, so that a draft can be changed in a mailbox that is almost full.
            if let Some(old) = replaces {
                remove(connection, target, old)?;
            }
            if !mailbox::by_id(connection, id)?.has_room_for(parsed.content.size()) {
                return Err(MessageStoreError::OverQuota);
            }
            let target = with_room(connection, folder::by_id(connection, target)?, now, touched)?.id;
            let uid = store(connection, target, &parsed, &settings, now)?;
            touched.mailbox(id);
            touched.chores();
            Ok(SavedDraft { folder: name, uid })
        })
        .await
    }

    /// Removes a draft.
    pub(super) async fn remove_draft(&self, address: &EmailAddress, uid: u32) -> Result<(), MessageStoreError> {
        let address = address.clone();
        self.write_freeing(move |connection, touched| {
            let id = mailbox::expect(connection, &address)?.id;
            let (source, _) =
                folder::find_special(connection, id, folder::DRAFTS)?.ok_or(MessageStoreError::NoSuchMessage)?;
            if !remove(connection, source, uid)? {
                return Err(MessageStoreError::NoSuchMessage);
            }
            touched.mailbox(id);
            touched.chores();
            Ok(())
        })
        .await
    }
}

/// Removes a message if it is a draft. Returns whether it was there.
fn remove(connection: &Connection, folder: FolderId, uid: u32) -> Result<bool, MessageStoreError> {
    let found = entry::find(connection, folder, uid)?;
    let is_draft = found.is_some_and(|entry| entry.state.flags.contains(SystemFlag::Draft));
    if is_draft {
        folder::remove_entries(connection, folder, &[uid])?;
    }
    Ok(is_draft)
}
