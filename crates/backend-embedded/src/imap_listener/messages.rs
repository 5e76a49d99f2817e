//! Commands that change messages: APPEND, STORE, COPY, MOVE, EXPUNGE.

use mailapi_imap::server::command;
use mailapi_imap::server::session::{Failure, Reply};
use mailapi_imap::server::view::MessageEntry;
use mailapi_imap::{Flags, MailboxName};
use mailapi_model::{Blob, Timestamp};

use super::failure::failure;
use super::user::{User, folder_name};
use crate::message_store::{FlagChange, FolderId};

impl User {
    pub(super) async fn append(
        &self,
        mailbox: &MailboxName,
        flags: &Flags,
        internal_date: Option<jiff::Timestamp>,
        bytes: Blob,
    ) -> Result<Reply, Failure> {
        let date = internal_date.map(|date| Timestamp::from_millis(date.as_millisecond()));
        let name = folder_name(mailbox)?;
        let appended = self.message_store.append(&self.address, &name, flags, date, bytes).await;
        let appended = appended.map_err(failure)?;
        Ok(Reply::Appended { uid_validity: appended.uid_validity, uid: appended.uid })
    }

    pub(super) async fn store(
        &self,
        folder: FolderId,
        uids: Vec<u32>,
        change: command::FlagChange,
    ) -> Result<Reply, Failure> {
        let (change, flags) = match change {
            command::FlagChange::Replace(flags) => (FlagChange::Set, flags),
            command::FlagChange::Add(flags) => (FlagChange::Add, flags),
            command::FlagChange::Remove(flags) => (FlagChange::Remove, flags),
        };
        let states = self.message_store.store_flags(folder, uids, change, flags).await.map_err(failure)?;
        let entries = states.into_iter().map(|state| MessageEntry { uid: state.uid, flags: state.flags });
        Ok(Reply::Stored(entries.collect()))
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
