//! The mail server built in: listeners, queue, maildrop.
//!
//! All mail lies in one SQLite file, which may be the one of the accounts. [`accept`] is the one way in, [`maildrop`]
//! keeps and reads, [`queue`] holds what goes on to other servers, and the delivery feed tells what became of it.

pub mod accept;
mod coming;
pub mod courier;
mod dsn;
mod feed;
mod imap_listener;
mod listeners;
pub mod maildrop;
pub mod net;
pub mod queue;
mod replies;
mod return_path;
mod settings;
mod smtp_listener;
mod smtp_session;
mod submission_listener;

use std::sync::Arc;

use mailapi_backend::{Backend, Provisioning, Spool};
use mailapi_model::{Clock, Entropy};
use mailapi_store::StoreError;
use mailapi_store::sqlite::Sqlite;

pub use imap_listener::ImapSettings;
pub use listeners::{BindError, Gatekeepers, ListenAddresses, ListenerSettings, Listeners, postmaster_at};
use maildrop::InAccountsFile;
pub use maildrop::Maildrop;
pub use settings::MaildropSettings;
pub use smtp_session::SmtpSettings;

/// The embedded mail server.
#[derive(Clone)]
pub struct Embedded {
    maildrop: Maildrop,
    follows_accounts: bool,
}

impl Embedded {
    /// Opens the mail server's tables in a database file, which may hold other tables too. Long messages lie in the spool
    /// while they come and go.
    ///
    /// # Errors
    /// When the database fails, or a newer program wrote it.
    pub async fn open(
        sqlite: Sqlite,
        settings: MaildropSettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        spool: Spool,
    ) -> Result<Self, StoreError> {
        let maildrop = Maildrop::open(sqlite, settings, clock, entropy, spool).await?;
        Ok(Self { maildrop, follows_accounts: false })
    }

    /// The same for accounts in the same file: domains and mailboxes change in the transactions that change the
    /// accounts.
    #[must_use]
    pub fn following_accounts(self) -> Self {
        self.maildrop.follow_accounts();
        Self { follows_accounts: true, ..self }
    }

    /// What the listeners and the courier work on.
    #[must_use]
    pub fn maildrop(&self) -> &Maildrop {
        &self.maildrop
    }

    /// The mail server as the rest of the product sees it.
    #[must_use]
    pub fn backend(&self) -> Backend {
        let maildrop = Arc::new(self.maildrop.clone());
        let provisioning: Arc<dyn Provisioning> = match self.follows_accounts {
            true => Arc::new(InAccountsFile(self.maildrop.clone())),
            false => maildrop.clone(),
        };
        Backend {
            submission: maildrop.clone(),
            mailboxes: maildrop.clone(),
            delivery_feed: maildrop,
            // What comes back lies in the maildrop, which tells of it with the rest.
            bounce_feed: None,
            provisioning,
        }
    }
}
