//! What a session knows of its selected folder, and what has changed since.

use mailapi_imap::server::command::UidRanges;
use mailapi_imap::server::view::{self, FolderUpdate, MessageEntry};

use super::failure::failure;
use crate::MessageStore;
use crate::message_store::{EntryState, Folder, FolderId, FolderSnapshot, MessageStoreError};

/// The selected folder as the session last saw it.
#[derive(Debug)]
pub(super) struct Selected {
    folder: FolderId,
    read_only: bool,
    modseq: u64,
    /// Ascending.
    uids: Vec<u32>,
}

impl Selected {
    /// A folder that was just selected, and what its session is told of it.
    pub(super) async fn open(
        message_store: &MessageStore,
        snapshot: FolderSnapshot,
        read_only: bool,
    ) -> (Self, view::FolderSnapshot) {
        let FolderSnapshot { folder, entries } = snapshot;
        let uids = entries.iter().map(|entry| entry.uid).collect();
        let told = view::FolderSnapshot {
            folder: folder.id.0,
            uid_validity: folder.uid_validity,
            uid_next: folder.uid_next,
            messages: entries.into_iter().map(told).collect(),
            recent: recent(message_store, &folder, read_only).await,
        };
        (Self { folder: folder.id, read_only, modseq: folder.highest_modseq, uids }, told)
    }

    /// What has changed since the last time, whoever changed it; none when nothing has.
    pub(super) async fn news(
        &mut self,
        message_store: &MessageStore,
    ) -> Result<Option<FolderUpdate>, MessageStoreError> {
        let FolderSnapshot { folder, entries } = match message_store.changed_since(self.folder, self.modseq).await {
            Ok(snapshot) => snapshot,
            Err(MessageStoreError::NoSuchFolder) => return Ok(Some(FolderUpdate::Gone)),
            Err(error) => return Err(error),
        };
        if folder.highest_modseq == self.modseq {
            return Ok(None);
        }
        self.add_new(&entries);
        // Each message that came is known now, so a count that does not fit means that others went.
        let removed = if self.uids.len() as u64 == folder.messages {
            Vec::new()
        } else {
            self.take_missing(&message_store.uids(self.folder).await?)
        };
        self.modseq = folder.highest_modseq;
        let recent = recent(message_store, &folder, self.read_only).await;
        Ok(Some(FolderUpdate::Changes { changed: entries.into_iter().map(told).collect(), removed, recent }))
    }

    fn add_new(&mut self, entries: &[EntryState]) {
        // A UID is never given out again, so what is new lies above all that was known.
        let largest = self.uids.last().copied().unwrap_or_default();
        self.uids.extend(entries.iter().map(|entry| entry.uid).filter(|uid| *uid > largest));
    }

    /// Forgets the UIDs that are not among those `present`, ascending; answers them.
    fn take_missing(&mut self, present: &[u32]) -> Vec<u32> {
        let (kept, missing) = self.uids.iter().partition(|uid| present.binary_search(uid).is_ok());
        self.uids = kept;
        missing
    }
}

/// The UIDs that become `\Recent` in a session that has just looked at the folder. After the look, so that a message that
/// comes in between is found by the next one.
async fn recent(message_store: &MessageStore, folder: &Folder, read_only: bool) -> UidRanges {
    let seen = folder.recent();
    if read_only || seen.is_empty() {
        return UidRanges::of(seen);
    }
    let taken = message_store.take_recent(folder.id).await;
    UidRanges::of(taken.map_err(failure).unwrap_or_default())
}

fn told(entry: EntryState) -> MessageEntry {
    MessageEntry { uid: entry.uid, flags: entry.flags }
}
