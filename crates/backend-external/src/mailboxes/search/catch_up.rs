//! Updates the index of a folder: adds new messages and removes deleted ones.

use mailapi_imap::client::{Command, UidSet};
use mailapi_model::FolderName;

use super::MOST_MESSAGES;
use super::texts::{self, Texts};
use crate::imap_pool::{ImapConnection, ImapError};
use crate::mailboxes::settings::MailboxSettings;
use crate::search_index::{Entry, IndexError, IndexWriter, IndexedFolder, ReportedFolder, SearchSettings};

/// How much is done at once.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effort {
    /// A search is waiting: at most this many added or removed messages, otherwise nothing.
    WhileWaiting(u64),
    /// One step in the background.
    OneStep,
}

impl Effort {
    pub(super) fn is_too_much(self, messages: u64) -> bool {
        matches!(self, Self::WhileWaiting(limit) if messages > limit)
    }

    pub(super) fn spend(&mut self, messages: u64) {
        if let Self::WhileWaiting(limit) = self {
            *limit = limit.saturating_sub(messages);
        }
    }
}

/// The result of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The index matches the folder; this many messages were added and removed.
    Done(u64),
    /// More remains.
    More,
    /// The server's counts are missing or inconsistent, so the folder cannot be indexed.
    Unfit,
}

/// Why an update failed.
#[derive(Debug)]
pub(super) enum Trouble {
    Imap(ImapError),
    Index(IndexError),
}

impl From<ImapError> for Trouble {
    fn from(error: ImapError) -> Self {
        Self::Imap(error)
    }
}

impl From<IndexError> for Trouble {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

/// An update of one folder.
pub(super) struct CatchUp<'a> {
    pub(super) writer: &'a IndexWriter,
    pub(super) name: &'a FolderName,
    /// The STATUS response, requested before anything else.
    pub(super) reported: &'a ReportedFolder,
    pub(super) effort: Effort,
    pub(super) settings: &'a MailboxSettings,
    pub(super) index: &'a SearchSettings,
}

/// The changes to apply.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Ascending.
    missing: Vec<u32>,
    gone: Vec<u32>,
    /// The UID up to which the folder is covered afterwards.
    upto: u32,
}

impl CatchUp<'_> {
    pub(super) async fn run(&self, connection: &mut ImapConnection) -> Result<Progress, Trouble> {
        let open = connection.open(self.name).await?;
        if open.uid_validity == 0 {
            return Ok(Progress::Unfit);
        }
        let mut state = self.writer.put_folder(self.name, open.uid_validity).await?;
        let Some(plan) = self.plan(connection, state).await? else { return Ok(Progress::Unfit) };
        let work = (plan.missing.len() + plan.gone.len()) as u64;
        if self.effort.is_too_much(work) {
            return Ok(Progress::More);
        }
        let batch = self.index.batch_messages.max(1);
        for gone in plan.gone.chunks(batch) {
            state = self.writer.remove(self.name, state, gone.to_vec()).await?;
        }
        let mut chunks = plan.missing.chunks(batch).peekable();
        while let Some(chunk) = chunks.next() {
            let is_last = chunks.peek().is_none();
            let end = if is_last { plan.upto } else { chunk.last().copied().unwrap_or(plan.upto) };
            let (entries, unread) = self.read(connection, chunk).await?;
            let covered = unread.map_or(end, |uid| uid.saturating_sub(1));
            state = self.writer.put(self.name, state, entries, covered).await?;
            if unread.is_some() || (matches!(self.effort, Effort::OneStep) && !is_last) {
                return Ok(Progress::More);
            }
        }
        if plan.missing.is_empty() && plan.upto != state.covered {
            self.writer.put(self.name, state, Vec::new(), plan.upto).await?;
        }
        Ok(Progress::Done(work))
    }

    /// Computes the changes. Returns `None` if the server's results are inconsistent.
    async fn plan(&self, connection: &mut ImapConnection, state: IndexedFolder) -> Result<Option<Plan>, Trouble> {
        let first_news = state.covered.saturating_add(1);
        let Some(news) = list(connection, first_news).await? else { return Ok(None) };
        let mut missing: Vec<u32> = news.newest_first().take_while(|&uid| uid >= first_news).collect();
        missing.reverse();
        let highest = missing.last().copied().unwrap_or(state.covered);
        // A status with an older UIDVALIDITY describes other messages.
        let is_of_same = self.reported.uid_validity == Some(u64::from(state.uid_validity));
        let last_reported = self.reported.highest_uid().filter(|_| is_of_same).unwrap_or_default();
        let upto = highest.max(last_reported).max(state.covered);
        // The counts match, so nothing was removed and the full list is not needed.
        if state.messages + missing.len() as u64 == u64::from(exists(connection)) {
            return Ok(Some(Plan { missing, gone: Vec::new(), upto }));
        }
        let Some(all) = list(connection, 1).await? else { return Ok(None) };
        let held = self.writer.uids(state.id).await?;
        let highest = all.newest_first().next().unwrap_or_default();
        Ok(Some(Plan { upto: upto.max(highest), ..difference(&all, &held) }))
    }

    /// Reads messages. Also returns the first UID that was not read and has to be read again.
    async fn read(&self, connection: &mut ImapConnection, uids: &[u32]) -> Result<(Vec<Entry>, Option<u32>), Trouble> {
        let Texts { mut entries, unread } = texts::read(connection, uids, self.settings, self.index).await?;
        let silent: Vec<u32> = uids
            .iter()
            .copied()
            .filter(|&uid| unread.is_none_or(|unread| uid < unread) && !entries.iter().any(|entry| entry.uid == uid))
            .collect();
        let Some(&first) = silent.first() else { return Ok((entries, unread)) };
        // Most likely removed since the listing. A message that still exists has no readable text.
        connection.refresh().await?;
        let Some(still) = list(connection, first).await? else { return Ok((entries, Some(first))) };
        for uid in silent.into_iter().filter(|&uid| still.contains(uid)) {
            tracing::warn!(folder = %self.name, uid, "the server sent no data for a message; indexing no text");
            entries.push(Entry::without_text(uid));
        }
        Ok((entries, unread))
    }
}

/// Returns the messages of the open folder from a UID on; `None` if there are more than the folder's count.
async fn list(connection: &mut ImapConnection, first: u32) -> Result<Option<UidSet>, ImapError> {
    let mut found = UidSet::default();
    if exists(connection) > 0 {
        let command = Command::uid_search_from(first, &connection.capabilities());
        found = connection.search(command).await?;
    }
    let most = u64::from(exists(connection)).min(MOST_MESSAGES);
    Ok((found.len() <= most).then_some(found))
}

fn exists(connection: &ImapConnection) -> u32 {
    connection.folder().map_or(0, |folder| folder.exists)
}

/// Compares the sorted lists of UIDs.
fn difference(all: &UidSet, held: &[u32]) -> Plan {
    let gone = held.iter().copied().filter(|&uid| !all.contains(uid)).collect();
    let mut missing: Vec<u32> = all.newest_first().filter(|uid| held.binary_search(uid).is_err()).collect();
    missing.reverse();
    Plan { missing, gone, upto: 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn who_waits_gets_little_or_nothing_done() {
        let mut effort = Effort::WhileWaiting(3);
        assert!(effort.is_too_much(4) && !effort.is_too_much(3));
        effort.spend(2);
        assert!(effort.is_too_much(2) && !effort.is_too_much(1));
        effort.spend(2);
        assert!(effort.is_too_much(1) && !effort.is_too_much(0));
        assert!(!Effort::OneStep.is_too_much(u64::MAX));
    }

    proptest! {
        #[test]
        fn a_difference_leads_from_one_to_the_other(
            all in prop::collection::btree_set(1u32..40, 0..30), held in prop::collection::btree_set(1u32..40, 0..30),
        ) {
            let sorted: Vec<u32> = held.iter().copied().collect();
            let plan = difference(&all.iter().copied().collect(), &sorted);
            let mut result: BTreeSet<u32> = held.clone();
            for uid in &plan.gone {
                prop_assert!(result.remove(uid));
            }
            for &uid in &plan.missing {
                prop_assert!(result.insert(uid));
            }
            prop_assert_eq!(result, all);
            prop_assert!(plan.missing.is_sorted());
        }
    }
}
