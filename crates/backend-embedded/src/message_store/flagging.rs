//! Changes flags.

use mailapi_imap::Flags;
use rusqlite::Connection;

use super::flag_bits::to_columns;
use super::id::FolderId;
use super::{EntryState, MessageStore, MessageStoreError, STEP, entry, folder};

/// Kind of flag change (RFC 3501 section 6.4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagChange {
    /// Replace all flags.
    Set,
    /// Add these flags.
    Add,
    /// Remove these flags.
    Remove,
}

impl FlagChange {
    fn apply(self, before: &Flags, flags: &Flags) -> Flags {
        match self {
            Self::Set => flags.clone(),
            Self::Add => before.with(flags),
            Self::Remove => before.without(flags),
        }
    }
}

impl MessageStore {
    /// Changes the flags of messages; of none if one message would have too many keywords. Returns the new
    /// state of each existing message, by ascending UID. A message whose flags do not change keeps its
    /// modification sequence. A large command runs in steps, with other writers between them.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`], [`MessageStoreError::TooManyKeywords`].
    pub async fn store_flags(
        &self,
        folder: FolderId,
        mut uids: Vec<u32>,
        change: FlagChange,
        flags: Flags,
    ) -> Result<Vec<EntryState>, MessageStoreError> {
        let max_keywords = self.settings().max_keywords;
        uids.sort_unstable();
        uids.dedup();
        // A single step is one transaction and needs no check in advance.
        if uids.len() > STEP {
            let (uids, flags) = (uids.clone(), flags.clone());
            self.scan(move |connection| refuse_too_many(connection, folder, &uids, change, &flags, max_keywords))
                .await?;
        }
        let mut states = Vec::with_capacity(uids.len());
        // Runs at least one step, which detects a removed folder.
        for at in (0..uids.len().max(1)).step_by(STEP) {
            let (uids, flags) = (uids[at..uids.len().min(at + STEP)].to_vec(), flags.clone());
            states.extend(self.store_step(folder, uids, change, flags, max_keywords).await?);
        }
        Ok(states)
    }

    async fn store_step(
        &self,
        folder: FolderId,
        uids: Vec<u32>,
        change: FlagChange,
        flags: Flags,
        max_keywords: usize,
    ) -> Result<Vec<EntryState>, MessageStoreError> {
        self.write(move |connection, touched| {
            let mailbox = folder::by_id(connection, folder)?.mailbox;
            let mut modseq = None;
            let mut states = Vec::with_capacity(uids.len());
            for uid in uids {
                let Some(meta) = entry::find(connection, folder, uid)? else { continue };
                let after = change.apply(&meta.state.flags, &flags);
                if after == meta.state.flags {
                    states.push(meta.state);
                    continue;
                }
                // All messages of a step share one modification sequence, allocated with the first change.
                let modseq = match modseq {
                    Some(modseq) => modseq,
                    None => *modseq.insert(folder::next_modseq(connection, folder)?),
                };
                entry::set_flags(connection, folder, uid, &to_columns(&after, max_keywords)?, modseq)?;
                states.push(EntryState { uid, flags: after, modseq });
            }
            if modseq.is_some() {
                touched.mailbox(mailbox);
            }
            Ok(states)
        })
        .await
    }
}

fn refuse_too_many(
    connection: &Connection,
    folder: FolderId,
    uids: &[u32],
    change: FlagChange,
    flags: &Flags,
    max_keywords: usize,
) -> Result<(), MessageStoreError> {
    for uid in uids {
        if let Some(meta) = entry::find(connection, folder, *uid)? {
            to_columns(&change.apply(&meta.state.flags, flags), max_keywords)?;
        }
    }
    Ok(())
}
