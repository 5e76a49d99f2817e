//! Empties a mailbox.

use async_trait::async_trait;
use mailapi_backend::{MailboxError, Purged};
use mailapi_imap::client::Command;
use mailapi_model::EmailAddress;

use super::folders;
use crate::imap_pool::{ImapConnection, ImapError, ImapPool, Job};

/// A way to remove all mail of a mailbox.
#[async_trait]
pub trait Purge: Send + Sync {
    /// Permanently removes the mail of all folders; the folders remain.
    ///
    /// # Errors
    /// As [`mailapi_backend::Mailboxes::purge`].
    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError>;
}

/// Removes mail over IMAP, for servers without an administration interface. The server updates the quota itself.
pub struct ImapPurge {
    pool: ImapPool,
}

impl ImapPurge {
    /// Uses the connections of this pool.
    #[must_use]
    pub const fn new(pool: ImapPool) -> Self {
        Self { pool }
    }
}

#[async_trait]
impl Purge for ImapPurge {
    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError> {
        self.pool.run(mailbox, None, &EmptyFolders).await
    }
}

struct EmptyFolders;

impl Job for EmptyFolders {
    type Output = Purged;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Purged, ImapError> {
        let (mut purged, mut refused) = (Purged { folders: 0, messages: 0 }, Vec::new());
        for folder in folders::all(connection).await? {
            let open = match connection.open_for_changing(&folder.name).await {
                Err(ImapError::Mailbox(MailboxError::NoSuchFolder)) => {
                    refused.push(folder.name);
                    continue;
                }
                opened => opened?,
            };
            if open.exists > 0 {
                connection.run(Command::delete_all(), |_| {}).await?;
                connection.run(Command::expunge(), |_| {}).await?;
            }
            purged.folders += 1;
            purged.messages += u64::from(open.exists);
        }
        folders::demand_removed(connection, &refused).await?;
        Ok(purged)
    }
}
