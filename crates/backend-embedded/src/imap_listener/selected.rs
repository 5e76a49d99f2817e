//! State of a session's selected folder, and its changes.

use mailapi_imap::server::ObjectId;
use mailapi_imap::server::command::UidRanges;
use mailapi_imap::server::view::{self, FolderUpdate, MessageEntry};

use super::failure::failure;
use crate::MessageStore;
use crate::message_store::{EntryState, Folder, FolderId, FolderSnapshot, MessageStoreError};

/// The selected folder as last reported to the client.
#[derive(Debug)]
pub(super) struct Selected {
    folder: FolderId,
    read_only: bool,
    modseq: u64,
    uids: UidRanges,
}

impl Selected {
    /// Returns the state of a newly selected folder, and the snapshot for the client.
    pub(super) async fn open(
        message_store: &MessageStore,
        snapshot: FolderSnapshot,
        read_only: bool,
    ) -> (Self, view::FolderSnapshot) {
        let FolderSnapshot { folder, entries } = snapshot;
        let uids = uids_of(&entries);
        let client_snapshot = view::FolderSnapshot {
            folder: folder.id.0,
            uid_validity: folder.uid_validity,
            uid_next: folder.uid_next,
            messages: entries.into_iter().map(message_entry).collect(),
            recent: recent(message_store, &folder, read_only).await,
            highest_modseq: folder.highest_modseq,
            mailbox_id: ObjectId::mailbox(folder.object_id()),
        };
        (Self { folder: folder.id, read_only, modseq: folder.highest_modseq, uids }, client_snapshot)
    }

    /// Returns the changes since the last call, by any session; `None` if there are none.
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
        // All new messages were just added, so a different count means that others were removed.
        let removed = if self.uids.count() == folder.messages {
            Vec::new()
        } else {
            self.take_missing(&message_store.uids(self.folder).await?)
        };
        self.modseq = folder.highest_modseq;
        let recent = recent(message_store, &folder, self.read_only).await;
        let changed = entries.into_iter().map(message_entry).collect();
        Ok(Some(FolderUpdate::Changes { changed, removed, recent, highest_modseq: self.modseq }))
    }

    fn add_new(&mut self, entries: &[EntryState]) {
        // UIDs are never reused, so new ones are above all known ones.
        self.uids.append(&uids_of(entries));
    }

    /// Removes the UIDs that are not in `present`, which is ascending, and returns them.
    fn take_missing(&mut self, present: &[u32]) -> Vec<u32> {
        let missing = self.uids.without(present);
        let missing: Vec<u32> = missing.iter().collect();
        self.uids = self.uids.without(&missing);
        missing
    }
}

fn uids_of(entries: &[EntryState]) -> UidRanges {
    UidRanges::from_ranges(entries.iter().map(|entry| (entry.uid, entry.uid)).collect())
}

/// Returns the UIDs that become `\Recent` in a session that has just read the folder. They may include a
/// message that arrived after the read; the next read reports it.
async fn recent(message_store: &MessageStore, folder: &Folder, read_only: bool) -> UidRanges {
    let seen = folder.recent();
    if read_only || seen.is_empty() {
        return UidRanges::of(seen);
    }
    let taken = message_store.take_recent(folder.id).await;
    UidRanges::of(taken.map_err(failure).unwrap_or_default())
}

pub(super) fn message_entry(entry: EntryState) -> MessageEntry {
    MessageEntry { uid: entry.uid, flags: entry.flags, modseq: entry.modseq }
}
