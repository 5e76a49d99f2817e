//! Commands that change messages: APPEND, STORE, COPY, MOVE, EXPUNGE.

use mailapi_imap::MailboxName;
use mailapi_imap::server::command::{self, AppendMessage};
use mailapi_imap::server::session::{Failure, Reply};
use mailapi_model::{Blob, Timestamp};

use super::failure::failure;
use super::selected::message_entry;
use super::user::{User, folder_name};
use crate::message_store::{AppendedTogether, FlagChange, FolderId, NewMessage};

impl User {
    pub(super) async fn append(
        &self,
        mailbox: &MailboxName,
        messages: Vec<AppendMessage>,
        bytes: &Blob,
    ) -> Result<Reply, Failure> {
        let mut start = 0;
        let new = messages.into_iter().map(|AppendMessage { flags, internal_date, length }| {
            let message = bytes.slice(start..start + length);
            start += length;
            let internal_date = internal_date.map(|date| Timestamp::from_millis(date.as_millisecond()));
            NewMessage { flags, internal_date, message }
        });
        let appended = self.message_store.append_together(&self.address, &folder_name(mailbox)?, new.collect()).await;
        let AppendedTogether { uid_validity, uids } = appended.map_err(failure)?;
        Ok(Reply::Appended { uid_validity, uids })
    }

    pub(super) async fn store(
        &self,
        folder: FolderId,
        uids: Vec<u32>,
        change: command::FlagChange,
        unchanged_since: Option<u64>,
    ) -> Result<Reply, Failure> {
        let (change, flags) = match change {
            command::FlagChange::Replace(flags) => (FlagChange::Set, flags),
            command::FlagChange::Add(flags) => (FlagChange::Add, flags),
            command::FlagChange::Remove(flags) => (FlagChange::Remove, flags),
        };
        let stored = self.message_store.store_flags_since(folder, uids, change, flags, unchanged_since).await;
        let flagged = stored.map_err(failure)?;
        let entries = flagged.states.into_iter().map(message_entry).collect();
        Ok(Reply::Stored { entries, modified: flagged.modified })
    }

    pub(super) async fn copy(
        &self,
        folder: FolderId,
        uids: Vec<u32>,
        to: &MailboxName,
        remove: bool,
    ) -> Result<Reply, Failure> {
        let to = folder_name(to)?;
        let done = if remove {
            self.message_store.move_messages(folder, uids, &to).await
        } else {
            self.message_store.copy(folder, uids, &to).await
        };
        let transferred = done.map_err(failure)?;
        Ok(Reply::Copied { uid_validity: transferred.uid_validity, uids: transferred.uids })
    }

    pub(super) async fn expunge(&self, folder: FolderId, uids: Option<Vec<u32>>) -> Result<Reply, Failure> {
        self.message_store.expunge(folder, uids).await.map(Reply::Expunged).map_err(failure)
    }
}
