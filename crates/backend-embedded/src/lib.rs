//! The built-in mail server: listeners, queue, message store.
//!
//! All mail is in one SQLite file, which the accounts may share. [`accept`] is the only entry for mail,
//! [`message_store`] stores and reads it, [`queue`] holds mail for other servers, and the delivery feed reports
//! the outcomes.

pub mod accept;
mod coming;
pub mod delivery_agent;
mod dsn;
mod feed;
mod imap_listener;
mod listeners;
pub mod message_store;
pub mod net;
pub mod queue;
mod replies;
mod return_path;
mod settings;
mod smtp_listener;
mod smtp_session;
mod submission_listener;
mod submitter;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mailapi_backend::{Backend, Buffer, Provisioning};
use mailapi_model::{Clock, Entropy};
use mailapi_store::StoreError;
use mailapi_store::sqlite::Sqlite;

pub use imap_listener::ImapSettings;
pub use listeners::{Authenticators, BindError, ListenAddresses, ListenerSettings, Listeners, postmaster_at};
use message_store::InAccountsFile;
pub use message_store::MessageStore;
pub use settings::MessageStoreSettings;
pub use smtp_session::SmtpSettings;

/// The embedded mail server.
#[derive(Clone)]
pub struct Embedded {
    message_store: MessageStore,
    imap_sessions: Arc<AtomicUsize>,
}

impl Embedded {
    /// Opens the mail server's tables in a database file that may hold other tables too. Long messages are
    /// buffered in `buffer` while they are received or sent.
    ///
    /// # Errors
    /// If the database fails, or a newer version wrote it.
    pub async fn open(
        sqlite: Sqlite,
        settings: MessageStoreSettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        buffer: Buffer,
    ) -> Result<Self, StoreError> {
        let message_store = MessageStore::open(sqlite, settings, clock, entropy, buffer).await?;
        Ok(Self { message_store, imap_sessions: Arc::default() })
    }

    /// Like [`Embedded::open`], for accounts in the same file: domains and mailboxes change in the
    /// transactions that change the accounts. Without it, nothing is reported to the accounts' database before
    /// it is durable here.
    #[must_use]
    pub fn following_accounts(self) -> Self {
        self.message_store.follow_accounts();
        self
    }

    /// Returns the message store, which the listeners and the delivery agent use.
    #[must_use]
    pub fn message_store(&self) -> &MessageStore {
        &self.message_store
    }

    /// Returns the number of connections to the IMAP listener.
    #[must_use]
    pub fn imap_sessions(&self) -> usize {
        self.imap_sessions.load(Ordering::Relaxed)
    }

    /// Returns the mail server as a backend for the rest of the product.
    #[must_use]
    pub fn backend(&self) -> Backend {
        let message_store = Arc::new(self.message_store.clone());
        let provisioning: Arc<dyn Provisioning> = match self.message_store.follows_accounts() {
            true => Arc::new(InAccountsFile(self.message_store.clone())),
            false => message_store.clone(),
        };
        Backend {
            submission: message_store.clone(),
            mailboxes: message_store.clone(),
            delivery_feed: message_store.clone(),
            // Bounces arrive in the message store, which reports them in the delivery feed.
            bounce_feed: None,
            provisioning,
            queue: message_store,
        }
    }
}
