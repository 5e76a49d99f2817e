//! Changes flags.

use futures_util::{StreamExt, TryStreamExt, stream};
use mailapi_imap::Flags;
use rusqlite::Connection;

use super::flag_bits::{FlagColumns, columns_of, to_columns};
use super::id::FolderId;
use super::{EntryState, MessageStore, MessageStoreError, STEP, STEPS_AT_ONCE, Touched, entry, folder};

/// The result of a flag change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flagged {
    /// The state of each message that exists, by ascending UID, without those in `modified`.
    pub states: Vec<EntryState>,
    /// UIDs of messages that stay as they are because they changed before, ascending.
    pub modified: Vec<u32>,
}

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

    /// Returns the columns of the new flags. A message of an earlier version may have too many keywords, which can be
    /// removed.
    fn columns(self, after: &Flags, max_keywords: usize) -> Result<FlagColumns, MessageStoreError> {
        if self == Self::Remove { Ok(columns_of(after)) } else { to_columns(after, max_keywords) }
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
        uids: Vec<u32>,
        change: FlagChange,
        flags: Flags,
    ) -> Result<Vec<EntryState>, MessageStoreError> {
        self.store_flags_since(folder, uids, change, flags, None).await.map(|flagged| flagged.states)
    }

    /// Like [`MessageStore::store_flags`]. With `unchanged_since`, messages changed after this modification sequence stay
    /// as they are (RFC 7162 section 3.1.3).
    ///
    /// # Errors
    /// Those of [`MessageStore::store_flags`].
    pub async fn store_flags_since(
        &self,
        folder: FolderId,
        mut uids: Vec<u32>,
        change: FlagChange,
        flags: Flags,
        unchanged_since: Option<u64>,
    ) -> Result<Flagged, MessageStoreError> {
        let max_keywords = self.settings().max_keywords;
        uids.sort_unstable();
        uids.dedup();
        // A single step is one transaction and needs no check in advance.
        if uids.len() > STEP {
            let (uids, flags) = (uids.clone(), flags.clone());
            self.scan(move |connection| refuse_too_many(connection, folder, &uids, change, &flags, max_keywords))
                .await?;
        }
        // Runs at least one step, which detects a removed folder.
        let steps = (0..uids.len().max(1)).step_by(STEP).map(|at| {
            let uids = uids[at..uids.len().min(at + STEP)].to_vec();
            self.store_step(StoreStep { folder, uids, change, flags: flags.clone(), unchanged_since, max_keywords })
        });
        let mut steps = stream::iter(steps.collect::<Vec<_>>()).buffered(STEPS_AT_ONCE);
        let mut flagged = Flagged::default();
        while let Some(more) = steps.try_next().await? {
            flagged.states.extend(more.states);
            flagged.modified.extend(more.modified);
        }
        Ok(flagged)
    }

    async fn store_step(&self, step: StoreStep) -> Result<Flagged, MessageStoreError> {
        // Mail programs mark messages as deleted before they expunge them, which must work on a full disk.
        let job = move |connection: &Connection, touched: &mut Touched| {
            let StoreStep { folder, uids, change, flags, unchanged_since, max_keywords } = &step;
            let (folder, max_keywords) = (*folder, *max_keywords);
            let mailbox = folder::by_id(connection, folder)?.mailbox;
            let (mut modseq, mut last) = (None, None::<(Flags, Flags)>);
            let mut flagged = Flagged::default();
            for &uid in uids {
                let Some(meta) = entry::find(connection, folder, uid)? else { continue };
                if unchanged_since.is_some_and(|since| meta.state.modseq > since) {
                    flagged.modified.push(uid);
                    continue;
                }
                // Messages with equal flags share the memory of their keywords.
                let after = match last.as_ref().filter(|(before, _)| *before == meta.state.flags) {
                    Some((_, after)) => after.clone(),
                    None => change.apply(&meta.state.flags, flags),
                };
                last = Some((meta.state.flags.clone(), after.clone()));
                if after == meta.state.flags {
                    flagged.states.push(meta.state);
                    continue;
                }
                // All messages of a step share one modification sequence, allocated with the first change.
                let modseq = match modseq {
                    Some(modseq) => modseq,
                    None => *modseq.insert(folder::next_modseq(connection, folder)?),
                };
                entry::set_flags(connection, folder, uid, &change.columns(&after, max_keywords)?, modseq)?;
                flagged.states.push(EntryState { uid, flags: after, modseq });
            }
            if modseq.is_some() {
                touched.mailbox(mailbox);
            }
            Ok(flagged)
        };
        self.write_freeing(job).await
    }
}

/// One transaction of a flag change.
struct StoreStep {
    folder: FolderId,
    uids: Vec<u32>,
    change: FlagChange,
    flags: Flags,
    unchanged_since: Option<u64>,
    max_keywords: usize,
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
            change.columns(&change.apply(&meta.state.flags, flags), max_keywords)?;
        }
    }
    Ok(())
}
