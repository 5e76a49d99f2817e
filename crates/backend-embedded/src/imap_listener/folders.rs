//! Commands on folders: SELECT, CREATE, DELETE, RENAME, SUBSCRIBE, LIST, STATUS, quota.

use std::collections::{HashMap, HashSet};

use mailapi_backend::Mailboxes;
use mailapi_imap::MailboxName;
use mailapi_imap::server::command::{Resync, UidRanges};
use mailapi_imap::server::session::{Failure, Reply};
use mailapi_imap::server::{self, MailboxStatus, ObjectId, Quota, SpecialUse, Usage};
use mailapi_model::FolderName;

use super::failure::failure;
use super::selected::Selected;
use super::user::{User, folder_name};
use crate::message_store::Folder;

impl User {
    pub(super) async fn select(
        &mut self,
        mailbox: &MailboxName,
        read_only: bool,
        resync: Option<Resync>,
    ) -> Result<Reply, Failure> {
        // A failed SELECT leaves no folder selected (RFC 3501 section 6.3.1).
        self.selected = None;
        let snapshot = self.message_store.select(&self.address, &folder_name(mailbox)?).await.map_err(failure)?;
        let vanished = self.vanished(&snapshot.folder, resync).await?;
        let (selected, snapshot) = Selected::open(&self.message_store, snapshot, read_only).await;
        self.selected = Some(selected);
        Ok(Reply::Selected { snapshot, vanished })
    }

    /// Returns the UIDs removed since the client's earlier session.
    async fn vanished(&self, folder: &Folder, resync: Option<Resync>) -> Result<UidRanges, Failure> {
        let resync = resync.filter(|resync| resync.uid_validity == folder.uid_validity);
        let Some(Resync { modseq, .. }) = resync.filter(|resync| resync.modseq < folder.highest_modseq) else {
            return Ok(UidRanges::default());
        };
        let vanished = self.message_store.vanished_since(folder.id, modseq).await.map_err(failure)?;
        Ok(UidRanges::from_ranges(vanished))
    }

    pub(super) async fn create(
        &self,
        mailbox: &MailboxName,
        special_use: Option<SpecialUse>,
    ) -> Result<Reply, Failure> {
        let name = folder_name(mailbox)?;
        let special_use = special_use.map(SpecialUse::as_str);
        self.message_store.create_folder_for(&self.address, &name, special_use).await.map_err(failure)?;
        let folder = self.message_store.folder(&self.address, &name).await.map_err(failure)?;
        Ok(Reply::Created(ObjectId::mailbox(folder.object_id())))
    }

    /// Deletes a folder. One with a special use can be deleted too, as with Dovecot; a client that needs it
    /// creates it again.
    pub(super) async fn delete(&self, mailbox: &MailboxName) -> Result<Reply, Failure> {
        let name = folder_name(mailbox)?;
        self.message_store.delete_folder(&self.address, &name).await.map(|()| Reply::Done).map_err(failure)
    }

    pub(super) async fn rename(&self, from: &MailboxName, to: &MailboxName) -> Result<Reply, Failure> {
        let (from, to) = (folder_name(from)?, folder_name(to)?);
        self.message_store.rename_folder(&self.address, &from, &to).await.map(|()| Reply::Done).map_err(failure)
    }

    pub(super) async fn subscribe(&self, mailbox: &MailboxName, subscribed: bool) -> Result<Reply, Failure> {
        let name = folder_name(mailbox)?;
        let done = if subscribed {
            self.message_store.subscribe(&self.address, &name).await
        } else {
            self.message_store.unsubscribe(&self.address, &name).await
        };
        done.map(|()| Reply::Done).map_err(failure)
    }

    pub(super) async fn folders(&self) -> Result<Reply, Failure> {
        let folders = self.message_store.list_folders(&self.address).await.map_err(failure)?;
        let subscribed = self.message_store.subscriptions(&self.address).await.map_err(failure)?;
        let mut orphans: HashSet<FolderName> = subscribed.into_iter().collect();
        let mut listed: Vec<_> = folders
            .into_iter()
            .filter_map(|folder| {
                let subscribed = orphans.remove(&folder.name);
                let special_use = folder.special_use.as_deref().and_then(SpecialUse::named);
                Some(server::Folder { name: mailbox_name(&folder.name)?, exists: true, subscribed, special_use })
            })
            .collect();
        // Subscriptions may outlive their folders (RFC 3501 section 6.3.6).
        listed.extend(orphans.iter().filter_map(|name| {
            Some(server::Folder { name: mailbox_name(name)?, exists: false, subscribed: true, special_use: None })
        }));
        Ok(Reply::Folders(listed))
    }

    pub(super) async fn statuses(
        &self,
        mailboxes: Vec<MailboxName>,
        recent: bool,
        deleted: bool,
    ) -> Result<Reply, Failure> {
        let folders = self.message_store.list_folders(&self.address).await.map_err(failure)?;
        let mut folders: HashMap<String, Folder> =
            folders.into_iter().map(|folder| (folder.name.as_str().to_owned(), folder)).collect();
        let (names, wanted): (Vec<_>, Vec<_>) =
            mailboxes.into_iter().filter_map(|name| folders.remove(name.as_str()).map(|folder| (name, folder))).unzip();
        let store = &self.message_store;
        let recent = if recent { store.count_recent(&wanted).await.map_err(failure)? } else { vec![0; wanted.len()] };
        let deleted =
            if deleted { store.count_deleted(&wanted).await.map_err(failure)? } else { vec![0; wanted.len()] };
        let figures = wanted.iter().zip(recent.into_iter().zip(deleted));
        let figures = figures.map(|(folder, (recent, deleted))| status(folder, recent, deleted));
        Ok(Reply::Statuses(names.into_iter().zip(figures).collect()))
    }

    pub(super) async fn quota(&self) -> Result<Reply, Failure> {
        let quota = Mailboxes::quota(&self.message_store, &self.address).await.map_err(|error| {
            tracing::error!(%error, "quota look-up failed");
            Failure::Unavailable
        })?;
        let storage = quota.limit_bytes.map(|limit| Usage { used: quota.used_bytes, limit });
        Ok(Reply::Quota(Quota { storage, messages: None }))
    }

    /// Returns the mailbox's quota, which applies to each of its folders.
    pub(super) async fn quota_root(&self, mailbox: &MailboxName) -> Result<Reply, Failure> {
        self.message_store.folder(&self.address, &folder_name(mailbox)?).await.map_err(failure)?;
        self.quota().await
    }
}

/// Converts a name; `None` if the protocol cannot represent it.
fn mailbox_name(name: &FolderName) -> Option<MailboxName> {
    MailboxName::new(name.as_str(), FolderName::MAX_BYTES).ok()
}

fn status(folder: &Folder, recent: u32, deleted: u32) -> MailboxStatus {
    let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    MailboxStatus {
        messages: count(folder.messages),
        recent,
        unseen: count(folder.unread),
        deleted,
        uid_next: folder.uid_next,
        uid_validity: folder.uid_validity,
        size: folder.size,
        highest_modseq: folder.highest_modseq,
        mailbox_id: ObjectId::mailbox(folder.object_id()),
    }
}
