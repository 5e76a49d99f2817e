//! An authenticated user: executes the session's commands on the message store.

use mailapi_backend::LoggedIn;
use mailapi_imap::MailboxName;
use mailapi_imap::server::session::{Effect, Failure, Reply, Session};
use mailapi_imap::server::view::FolderUpdate;
use mailapi_model::{EmailAddress, FolderName};

use super::failure::failure;
use super::search;
use super::selected::Selected;
use super::session_limits::{MailboxPermit, OrderPermit, SessionPermit};
use crate::MessageStore;
use crate::message_store::{FolderId, MailboxId, MailboxWatch};

/// The owner of a mailbox in a session.
pub(super) struct User {
    pub(super) message_store: MessageStore,
    pub(super) address: EmailAddress,
    pub(super) logged_in: LoggedIn,
    pub(super) selected: Option<Selected>,
    watch: MailboxWatch,
    permit: SessionPermit,
}

impl User {
    pub(super) fn new(
        message_store: MessageStore,
        address: EmailAddress,
        logged_in: LoggedIn,
        mailbox: MailboxId,
        permit: SessionPermit,
    ) -> Self {
        let watch = message_store.watch(mailbox);
        Self { message_store, address, logged_in, selected: None, watch, permit }
    }

    /// Executes a command that needs no connection: all but login, APPEND and FETCH.
    pub(super) async fn carry_out(
        &mut self,
        effect: Effect,
        session: &Session,
        max_search_texts: usize,
    ) -> Result<Reply, Failure> {
        match effect {
            Effect::Select { mailbox, read_only, resync } => self.select(&mailbox, read_only, resync).await,
            Effect::Create { mailbox, special_use } => self.create(&mailbox, special_use).await,
            Effect::Delete(mailbox) => self.delete(&mailbox).await,
            Effect::Rename { from, to } => self.rename(&from, &to).await,
            Effect::Subscribe { mailbox, subscribed } => self.subscribe(&mailbox, subscribed).await,
            Effect::Folders => self.folders().await,
            Effect::Status { mailboxes, recent, deleted } => self.statuses(mailboxes, recent, deleted).await,
            Effect::Quota => self.quota().await,
            Effect::QuotaRoot(mailbox) => self.quota_root(&mailbox).await,
            Effect::Refresh { .. } => Ok(Reply::Done),
            Effect::Expunge { folder, uids } => {
                let uids = uids.map(|ranges| session.selected().map(|view| view.uids_in(&ranges)).unwrap_or_default());
                self.expunge(FolderId(folder), uids).await
            }
            Effect::Store { folder, uids, change, unchanged_since } => {
                self.store(FolderId(folder), uids, change, unchanged_since).await
            }
            Effect::Copy { folder, uids, to, remove } => self.copy(FolderId(folder), uids, &to, remove).await,
            Effect::Search { folder, key } => {
                search::search(&self.message_store, FolderId(folder), key, max_search_texts).await.map(Reply::Found)
            }
            Effect::Order { folder, key, with_header } => {
                search::order(&self.message_store, FolderId(folder), key, max_search_texts, with_header)
                    .await
                    .map(Reply::Facts)
            }
            // The connection executes these itself.
            Effect::Login { .. } | Effect::Compress | Effect::Append { .. } | Effect::Fetch { .. } => {
                Err(Failure::Unavailable)
            }
        }
    }

    /// Returns the changes of the selected folder since the last call.
    pub(super) async fn news(&mut self, session: &Session) -> Option<FolderUpdate> {
        session.selected()?;
        let news = self.selected.as_mut()?.news(&self.message_store).await;
        news.unwrap_or_else(|error| {
            // The next call reports the same changes again.
            failure(error);
            None
        })
    }

    /// Waits until the mailbox may order messages. The permit lasts until the response is written.
    pub(super) async fn may_order(&self) -> OrderPermit {
        self.permit.order().await
    }

    /// Waits until the mailbox may search in texts.
    pub(super) async fn may_search(&self) -> MailboxPermit {
        self.permit.search().await
    }

    /// Waits until the session may change many messages, or report changes. The permit lasts until the response is made.
    pub(super) async fn may_report(&self) -> MailboxPermit {
        self.permit.report().await
    }

    /// Waits until the mailbox's limit of unread output has room for this many bytes.
    pub(super) async fn may_keep_unread(&self, bytes: usize) -> MailboxPermit {
        self.permit.keep_unread(bytes).await
    }

    /// Waits until the mailbox may have changed.
    pub(super) async fn changed(&mut self) {
        self.watch.changed().await;
    }
}

/// Converts the name of a mailbox to that of a folder.
pub(super) fn folder_name(mailbox: &MailboxName) -> Result<FolderName, Failure> {
    mailbox.as_str().parse().map_err(|_| Failure::NoSuchMailbox)
}
