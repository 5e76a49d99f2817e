//! Operations on folders by name: list, select, create, delete, rename, subscribe.

use mailapi_model::{EmailAddress, FolderName, Timestamp};
use rusqlite::Connection;

use super::id::{FolderId, MailboxId};
use super::{
    EntryMeta, EntryState, Folder, FolderSnapshot, MessageStore, MessageStoreError, entry, folder, mailbox, removed,
};

impl MessageStore {
    /// Returns all folders of a mailbox: INBOX, then the others by name.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`].
    pub async fn list_folders(&self, address: &EmailAddress) -> Result<Vec<Folder>, MessageStoreError> {
        self.read(|connection| {
            let mailbox = mailbox::expect(connection, address)?;
            Ok(folder::list(connection, mailbox.id)?)
        })
        .await
    }

    /// Returns a folder without its entries.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`], [`MessageStoreError::NoSuchFolder`].
    pub async fn folder(&self, address: &EmailAddress, name: &FolderName) -> Result<Folder, MessageStoreError> {
        self.read(|connection| {
            let mailbox = mailbox::expect(connection, address)?;
            folder::expect(connection, mailbox.id, name)
        })
        .await
    }

    /// Returns a folder's current state by its number, which a rename does not change.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`].
    pub async fn folder_now(&self, folder: FolderId) -> Result<Folder, MessageStoreError> {
        self.read(|connection| folder::by_id(connection, folder)).await
    }

    /// Returns a folder and all its entries at one point in time.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`], [`MessageStoreError::NoSuchFolder`].
    pub async fn select(&self, address: &EmailAddress, name: &FolderName) -> Result<FolderSnapshot, MessageStoreError> {
        let is_long = self.folder(address, name).await?.messages > self.settings().inline_entries;
        let (address, name) = (address.clone(), name.clone());
        let job = move |connection: &Connection| {
            let mailbox = mailbox::expect(connection, &address)?;
            let folder = folder::expect(connection, mailbox.id, &name)?;
            let entries = entry::changed_since(connection, folder.id, 0)?;
            Ok(FolderSnapshot { folder, entries })
        };
        if is_long { self.scan(job).await } else { self.read(job).await }
    }

    /// Returns the entries changed after `modseq`, and the folder, at one point in time. If `folder.messages`
    /// does not match the caller's count, messages were removed: [`MessageStore::uids`] returns the rest.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`].
    pub async fn changed_since(&self, folder: FolderId, modseq: u64) -> Result<FolderSnapshot, MessageStoreError> {
        self.read(|connection| {
            // 1 selects the same entries as 0, since sequences start at 2, but reads them through the index.
            let entries: Vec<EntryState> = entry::changed_since(connection, folder, modseq.max(1))?;
            Ok(FolderSnapshot { folder: folder::by_id(connection, folder)?, entries })
        })
        .await
    }

    /// Returns the stored entries of these UIDs, ascending, without bytes. Removed entries are skipped.
    ///
    /// # Errors
    /// If the database fails. A removed folder has no entries.
    pub async fn fetch_meta(&self, folder: FolderId, mut uids: Vec<u32>) -> Result<Vec<EntryMeta>, MessageStoreError> {
        uids.sort_unstable();
        uids.dedup();
        self.read(|connection| {
            let found = uids.iter().map(|uid| entry::find(connection, folder, *uid));
            Ok(found.filter_map(Result::transpose).collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Returns the UIDs of a folder, ascending.
    ///
    /// # Errors
    /// If the database fails. A removed folder has no UIDs.
    pub async fn uids(&self, folder: FolderId) -> Result<Vec<u32>, MessageStoreError> {
        self.read(|connection| Ok(entry::uids(connection, folder)?)).await
    }

    /// Creates a folder and its missing parents (RFC 3501 section 6.3.3).
    ///
    /// # Errors
    /// [`MessageStoreError::FolderExists`], [`MessageStoreError::TooManyFolders`], [`MessageStoreError::NoSuchMailbox`].
    pub async fn create_folder(
        &self,
        address: &EmailAddress,
        name: &FolderName,
    ) -> Result<FolderId, MessageStoreError> {
        self.create_folder_for(address, name, None).await
    }

    /// Creates a folder with a special use such as `\Archive` (RFC 6154 section 3), and its missing parents.
    ///
    /// # Errors
    /// Those of [`MessageStore::create_folder`]; [`MessageStoreError::SpecialUseTaken`].
    pub async fn create_folder_for(
        &self,
        address: &EmailAddress,
        name: &FolderName,
        special_use: Option<&'static str>,
    ) -> Result<FolderId, MessageStoreError> {
        let (address, name) = (address.clone(), name.clone());
        let (now, most) = (self.clock().now(), self.settings().max_folders);
        self.write(move |connection, touched| {
            let mailbox = mailbox::expect(connection, &address)?.id;
            touched.mailbox(mailbox);
            if let Some(special_use) = special_use
                && folder::has_special_use(connection, mailbox, special_use)?
            {
                return Err(MessageStoreError::SpecialUseTaken);
            }
            create_superiors(connection, mailbox, &name, now)?;
            let folder = folder::create(connection, mailbox, &name, special_use, now)?;
            // Checked last, since several parents may be new; an error rolls everything back.
            within_limit(connection, mailbox, most).map(|()| folder)
        })
        .await
    }

    /// Removes a folder and its messages. Folders below it are kept (RFC 9051 section 6.3.4).
    ///
    /// # Errors
    /// [`MessageStoreError::FolderIsFixed`] for INBOX; [`MessageStoreError::NoSuchFolder`].
    pub async fn delete_folder(&self, address: &EmailAddress, name: &FolderName) -> Result<(), MessageStoreError> {
        let (address, name) = (address.clone(), name.clone());
        self.write_freeing(move |connection, touched| {
            let mailbox = mailbox::expect(connection, &address)?.id;
            let folder = folder::expect(connection, mailbox, &name)?;
            if folder.name == FolderName::inbox() {
                return Err(MessageStoreError::FolderIsFixed);
            }
            removed::take_away(connection, &folder)?;
            touched.mailbox(mailbox);
            touched.chores();
            Ok(())
        })
        .await
    }

    /// Renames a folder and those below it, and creates missing parents of the new name. A name whose own folder
    /// was deleted can be renamed too, with the folders below it. Renaming INBOX moves its messages to a new
    /// folder and keeps INBOX empty (RFC 9051 section 6.3.6).
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`]; [`MessageStoreError::FolderExists`] if one of the new names exists;
    /// [`MessageStoreError::FolderIsFixed`] if the new name is below the old one or a name gets too long;
    /// [`MessageStoreError::TooManyFolders`].
    pub async fn rename_folder(
        &self,
        address: &EmailAddress,
        from: &FolderName,
        to: &FolderName,
    ) -> Result<(), MessageStoreError> {
        let (address, from, to) = (address.clone(), from.clone(), to.clone());
        if from == FolderName::inbox() {
            return self
                .to_its_end(move |message_store| async move { message_store.rename_inbox(address, to).await })
                .await;
        }
        let (now, most) = (self.clock().now(), self.settings().max_folders);
        self.write(move |connection, touched| {
            let mailbox = mailbox::expect(connection, &address)?.id;
            if folder::by_name(connection, mailbox, &to)?.is_some() {
                return Err(MessageStoreError::FolderExists);
            }
            touched.mailbox(mailbox);
            rename_tree(connection, mailbox, &from, &to)?;
            create_superiors(connection, mailbox, &to, now)?;
            within_limit(connection, mailbox, most)
        })
        .await
    }

    /// Moves all messages out of INBOX. Other writers run between the steps; mail that arrives meanwhile
    /// stays in INBOX.
    async fn rename_inbox(&self, address: EmailAddress, to: FolderName) -> Result<(), MessageStoreError> {
        self.create_folder(&address, &to).await?;
        let inbox = self.folder(&address, &FolderName::inbox()).await?.id;
        let uids = self.uids(inbox).await?;
        self.move_messages(inbox, uids, &to).await.map(drop)
    }

    /// Subscribes to a name, with or without a folder (RFC 3501 section 6.3.6).
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`]; [`MessageStoreError::TooManyFolders`] if there are too many
    /// subscriptions.
    pub async fn subscribe(&self, address: &EmailAddress, name: &FolderName) -> Result<(), MessageStoreError> {
        let (address, name) = (address.clone(), name.clone());
        let most = self.settings().max_folders;
        self.write(move |connection, _| {
            let mailbox = mailbox::expect(connection, &address)?.id;
            if folder::subscriptions(connection, mailbox)?.len() as u64 >= most {
                return Err(MessageStoreError::TooManyFolders);
            }
            Ok(folder::subscribe(connection, mailbox, &name)?)
        })
        .await
    }

    /// Removes a subscription.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`].
    pub async fn unsubscribe(&self, address: &EmailAddress, name: &FolderName) -> Result<(), MessageStoreError> {
        let (address, name) = (address.clone(), name.clone());
        self.write(move |connection, _| {
            let mailbox = mailbox::expect(connection, &address)?.id;
            Ok(folder::unsubscribe(connection, mailbox, &name)?)
        })
        .await
    }

    /// Returns the subscribed names, sorted. A name may have no folder.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchMailbox`].
    pub async fn subscriptions(&self, address: &EmailAddress) -> Result<Vec<FolderName>, MessageStoreError> {
        self.read(|connection| {
            let mailbox = mailbox::expect(connection, address)?;
            Ok(folder::subscriptions(connection, mailbox.id)?)
        })
        .await
    }
}

fn rename_tree(
    connection: &Connection,
    mailbox: MailboxId,
    from: &FolderName,
    to: &FolderName,
) -> Result<(), MessageStoreError> {
    let below = format!("{from}/");
    if to.as_str().starts_with(&below) {
        return Err(MessageStoreError::FolderIsFixed);
    }
    let folder = folder::by_name(connection, mailbox, from)?;
    let mut children = folder::list(connection, mailbox)?;
    children.retain(|child| child.name.as_str().starts_with(&below));
    match folder {
        Some(folder) => folder::rename(connection, folder.id, to)?,
        None if children.is_empty() => return Err(MessageStoreError::NoSuchFolder),
        // Only the folders below have this name.
        None => {}
    }
    for child in children {
        let Some(rest) = child.name.as_str().strip_prefix(&below) else { continue };
        let name: FolderName = format!("{to}/{rest}").parse().map_err(|_| MessageStoreError::FolderIsFixed)?;
        if folder::by_name(connection, mailbox, &name)?.is_some() {
            return Err(MessageStoreError::FolderExists);
        }
        folder::rename(connection, child.id, &name)?;
    }
    Ok(())
}

/// Returns the folder into which a rule files a message. A missing one is created; `None` if the mailbox has too many.
pub(crate) fn for_rule(
    connection: &Connection,
    mailbox: MailboxId,
    name: &FolderName,
    most: u64,
    now: Timestamp,
) -> Result<Option<FolderId>, MessageStoreError> {
    if let Some(folder) = folder::by_name(connection, mailbox, name)? {
        return Ok(Some(folder.id));
    }
    let levels = name.as_str().split('/').count() as u64;
    if folder::list(connection, mailbox)?.len() as u64 + levels > most {
        return Ok(None);
    }
    create_superiors(connection, mailbox, name, now)?;
    let id = folder::create(connection, mailbox, name, None, now)?;
    folder::subscribe(connection, mailbox, name)?;
    Ok(Some(id))
}

/// Returns the folder of this name for an import. A missing one is created and subscribed.
pub(super) fn for_import(
    connection: &Connection,
    mailbox: MailboxId,
    name: &FolderName,
    most: u64,
    now: Timestamp,
) -> Result<Folder, MessageStoreError> {
    let id = for_rule(connection, mailbox, name, most, now)?.ok_or(MessageStoreError::TooManyFolders)?;
    folder::by_id(connection, id)
}

/// Creates the missing parents of a name.
fn create_superiors(
    connection: &Connection,
    mailbox: MailboxId,
    name: &FolderName,
    now: Timestamp,
) -> Result<(), MessageStoreError> {
    for (end, _) in name.as_str().match_indices('/') {
        let above: FolderName = name.as_str()[..end].parse().map_err(|_| MessageStoreError::FolderIsFixed)?;
        if folder::by_name(connection, mailbox, &above)?.is_none() {
            folder::create(connection, mailbox, &above, None, now)?;
        }
    }
    Ok(())
}

fn within_limit(connection: &Connection, mailbox: MailboxId, most: u64) -> Result<(), MessageStoreError> {
    let count = folder::list(connection, mailbox)?.len() as u64;
    if count > most { Err(MessageStoreError::TooManyFolders) } else { Ok(()) }
}
