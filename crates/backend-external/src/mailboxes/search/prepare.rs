//! Checks whether the index of a mailbox is complete, and updates it if not.

use std::sync::Arc;

use mailapi_backend::{FolderScope, MailboxError};
use mailapi_imap::client::{Code, FolderStatus, StatusItem};
use mailapi_model::{EmailAddress, FolderName};

use super::catch_up::{CatchUp, Effort, Progress, Trouble};
use crate::imap_pool::{ImapConnection, ImapError, Job};
use crate::mailboxes::folders;
use crate::mailboxes::settings::MailboxSettings;
use crate::search_index::{
    IndexError, IndexUse, IndexWriter, IndexedFolder, MailboxIndex, ReportedFolder, SearchIndex, Searched,
};

/// Compares the index with the server, and updates it as far as the effort permits.
pub(super) struct Prepare<'a> {
    pub(super) index: &'a SearchIndex,
    pub(super) mailbox: &'a EmailAddress,
    pub(super) scope: &'a FolderScope,
    pub(super) settings: &'a MailboxSettings,
    pub(super) effort: Effort,
}

/// The state of an index.
pub(super) enum Standing {
    /// It holds exactly the content of these folders at the time of the comparison.
    Whole {
        index: Arc<MailboxIndex>,
        folders: Vec<Searched>,
        /// It also holds messages that are to be removed.
        has_leavings: bool,
    },
    /// Messages are missing.
    Behind,
    /// There is none: the server has its own, or none can be created.
    NotIndexed,
}

/// The STATUS items to request.
const ITEMS: &[StatusItem] = &[StatusItem::Messages, StatusItem::UidNext, StatusItem::UidValidity];

/// A folder and its status.
type Reported = (FolderName, ReportedFolder);

impl Job for Prepare<'_> {
    type Output = Result<Standing, IndexError>;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Self::Output, ImapError> {
        match self.prepare(connection).await {
            Ok(standing) => Ok(Ok(standing)),
            Err(Trouble::Index(error)) => Ok(Err(error)),
            Err(Trouble::Imap(error)) => Err(error),
        }
    }
}

impl Prepare<'_> {
    async fn prepare(&self, connection: &mut ImapConnection) -> Result<Standing, Trouble> {
        if self.is_left_to_server(connection) {
            return Ok(Standing::NotIndexed);
        }
        let reported = self.ask(connection).await?;
        let Some(index) = self.index.open(self.mailbox).await else { return Ok(Standing::NotIndexed) };
        let has_leavings = self.drop_others(&index, &reported).await?;
        let reported: Vec<Reported> = reported.into_iter().filter(|(_, folder)| !folder.is_empty()).collect();
        let progress = self.catch_up(connection, &index, &reported).await?;
        leave_all_but_inbox(connection).await?;
        match progress {
            Progress::More => return Ok(Standing::Behind),
            Progress::Unfit => return Ok(Standing::NotIndexed),
            Progress::Done(_) => {}
        }
        // A folder without a state was removed meanwhile.
        let number = |(name, _): &Reported| Some((index.folder(name)?.id, Arc::new(name.clone())));
        let folders = reported.iter().filter_map(number).collect();
        Ok(Standing::Whole { index, folders, has_leavings })
    }

    fn is_left_to_server(&self, connection: &ImapConnection) -> bool {
        match self.index.settings().index {
            IndexUse::On => false,
            IndexUse::Off => true,
            IndexUse::Auto => connection.capabilities().has("SEARCH=FUZZY"),
        }
    }

    /// Requests the status of the folders. For any folder but INBOX, Dovecot reads an index of all folders and opens
    /// INBOX for it. That takes time in proportion to INBOX, so INBOX is kept open.
    async fn ask(&self, connection: &mut ImapConnection) -> Result<Vec<Reported>, ImapError> {
        let reported = |status: FolderStatus| ReportedFolder {
            uid_validity: status.uid_validity,
            uid_next: status.uid_next,
            messages: status.messages,
        };
        let inbox = FolderName::inbox();
        let all = match self.scope {
            FolderScope::One(folder) => {
                if *folder == inbox {
                    connection.open(folder).await?;
                } else {
                    leave_all_but_inbox(connection).await?;
                }
                vec![(folder.clone(), connection.status(folder, ITEMS).await?)]
            }
            FolderScope::All => {
                connection.open(&inbox).await?;
                folders::statuses(connection, ITEMS).await?
            }
        };
        Ok(all.into_iter().map(|(name, status)| (name, reported(status))).collect())
    }

    /// Drops folders from the index that are empty or no longer exist. Returns whether there were any.
    async fn drop_others(&self, index: &Arc<MailboxIndex>, reported: &[Reported]) -> Result<bool, IndexError> {
        let is_asked = |name: &FolderName| match self.scope {
            FolderScope::One(folder) => folder == name,
            FolderScope::All => true,
        };
        let has_messages = |name: &FolderName| reported.iter().any(|(one, folder)| one == name && !folder.is_empty());
        let mut others = index.folder_names();
        others.retain(|name| is_asked(name) && !has_messages(name));
        if others.is_empty() {
            return Ok(false);
        }
        index.write().await.drop_folders(others).await?;
        Ok(true)
    }

    async fn catch_up(
        &self,
        connection: &mut ImapConnection,
        index: &Arc<MailboxIndex>,
        reported: &[Reported],
    ) -> Result<Progress, Trouble> {
        let is_whole = |(name, reported): &&Reported| index.folder(name).is_some_and(|state| state.is_all_of(reported));
        let stale: Vec<&Reported> = reported.iter().filter(|one| !is_whole(one)).collect();
        if stale.is_empty() {
            return Ok(Progress::Done(0));
        }
        let distances =
            stale.iter().map(|(name, reported)| IndexedFolder::distance(index.folder(name).as_ref(), reported));
        if self.effort.is_too_much(distances.fold(0, u64::saturating_add)) {
            return Ok(Progress::More);
        }
        let writer = index.write().await;
        let mut effort = self.effort;
        for one in stale {
            // Another task may have updated it meanwhile.
            if is_whole(&one) {
                continue;
            }
            match self.catch_up_in(connection, &writer, one, effort).await? {
                Progress::Done(messages) => effort.spend(messages),
                unfinished => return Ok(unfinished),
            }
        }
        Ok(Progress::Done(0))
    }

    async fn catch_up_in(
        &self,
        connection: &mut ImapConnection,
        writer: &IndexWriter,
        (name, reported): &Reported,
        effort: Effort,
    ) -> Result<Progress, Trouble> {
        let catch_up =
            CatchUp { writer, name, reported, effort, settings: self.settings, index: self.index.settings() };
        match catch_up.run(connection).await {
            Err(Trouble::Imap(ImapError::Mailbox(MailboxError::NoSuchFolder))) if *self.scope == FolderScope::All => {
                folders::demand_removed(connection, std::slice::from_ref(name)).await?;
                writer.drop_folders(vec![name.clone()]).await?;
                Ok(Progress::Done(0))
            }
            // A server bug may be limited to this connection, so the pool retries that one on another.
            Err(Trouble::Imap(ImapError::Refused(status))) if status.code != Some(Code::ServerBug) => {
                tracing::warn!(mailbox = %self.mailbox, reason = status.text, "could not read a folder for its index");
                Ok(Progress::Unfit)
            }
            outcome => outcome,
        }
    }
}

/// Closes the open folder unless it is INBOX. A server reports an open folder under its old name even after a
/// renaming. INBOX is never renamed (RFC 3501 section 6.3.5).
async fn leave_all_but_inbox(connection: &mut ImapConnection) -> Result<(), ImapError> {
    if connection.folder().is_some_and(|open| open.name != FolderName::inbox()) {
        connection.leave_folder().await?;
    }
    Ok(())
}
