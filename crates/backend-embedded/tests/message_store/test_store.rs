//! A mail server in a temporary directory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use mailapi_backend::{Buffer, BufferSettings};
use mailapi_backend::{ByteStream, MailboxError, Provisioning};
use mailapi_backend_embedded::accept::{Expanded, Incoming, RecipientCheck, Relaying};
use mailapi_backend_embedded::{Embedded, MessageStore, MessageStoreSettings};
use mailapi_model::{Clock, EmailAddress, FolderName};
use mailapi_store::Store;
use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_testkit::{FakeClock, SeededEntropy};
use rusqlite::Connection;
use tempfile::TempDir;

pub(crate) struct TestStore {
    directory: TempDir,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) sqlite: Sqlite,
    pub(crate) message_store: MessageStore,
}

impl TestStore {
    /// Creates a server with the domain example.org and the mailboxes ann and bob.
    pub(crate) async fn new() -> Self {
        Self::with(MessageStoreSettings::default()).await
    }

    pub(crate) async fn with(settings: MessageStoreSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(FakeClock::default());
        let sqlite = file(&directory);
        let message_store = open(&sqlite, &directory, settings, &clock).await.message_store().clone();
        message_store.put_domain(&"example.org".parse().unwrap()).await.unwrap();
        for mailbox in [ann(), bob()] {
            message_store.put_mailbox(&mailbox, None).await.unwrap();
        }
        Self { directory, clock, sqlite, message_store }
    }

    /// Opens the same file with another handle, as after a restart or by another process.
    pub(crate) async fn open_again(&self) -> MessageStore {
        let settings = MessageStoreSettings::default();
        open(&file(&self.directory), &self.directory, settings, &self.clock).await.message_store().clone()
    }

    /// Makes the file that of the accounts, too.
    pub(crate) async fn follow_accounts(&self) {
        let settings = MessageStoreSettings::default();
        // The log of events is there.
        Store::on_sqlite(self.sqlite.clone()).migrate(self.clock.now()).await.unwrap();
        let _ = open(&self.sqlite, &self.directory, settings, &self.clock).await.following_accounts();
    }

    /// Opens the database directly.
    pub(crate) fn database(&self) -> Connection {
        Connection::open(self.directory.path().join("mail.db")).unwrap()
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.database().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(crate) fn incoming(&self, recipients: &[&str], message: &str) -> Incoming {
        let recipients: Vec<EmailAddress> = recipients.iter().map(|r| r.parse().unwrap()).collect();
        let sender = Some(address("eve@elsewhere.example"));
        Incoming::new(sender, recipients, Bytes::from(message.to_owned()), self.clock.now(), Relaying::Allowed)
    }

    /// Checks the first recipient of a message.
    pub(crate) async fn check(&self, recipient: &str, size: u64, relaying: Relaying) -> RecipientCheck {
        let mut expanded = Expanded::none(relaying);
        self.message_store.check_recipient(&address(recipient), size, relaying, &mut expanded).await.unwrap()
    }

    pub(crate) async fn deliver(&self, recipients: &[&str], message: &str) {
        self.message_store.accept(self.incoming(recipients, message)).await.unwrap();
    }
}

fn file(directory: &TempDir) -> Sqlite {
    Sqlite::open(&directory.path().join("mail.db"), SqliteSettings::default()).unwrap()
}

async fn open(file: &Sqlite, directory: &TempDir, settings: MessageStoreSettings, clock: &Arc<FakeClock>) -> Embedded {
    let entropy = Arc::new(SeededEntropy::default());
    let buffer = Buffer::new(BufferSettings::new(directory.path()));
    Embedded::open(file.clone(), settings, clock.clone(), entropy, buffer).await.unwrap()
}

pub(crate) fn address(text: &str) -> EmailAddress {
    text.parse().unwrap()
}

pub(crate) fn ann() -> EmailAddress {
    address("ann@example.org")
}

pub(crate) fn bob() -> EmailAddress {
    address("bob@example.org")
}

pub(crate) fn folder(name: &str) -> FolderName {
    name.parse().unwrap()
}

/// Returns a small message.
pub(crate) fn mail(subject: &str, body: &str) -> String {
    format!("From: Eve <eve@elsewhere.example>\r\nTo: ann@example.org\r\nSubject: {subject}\r\n\r\n{body}\r\n")
}

pub(crate) async fn bytes(stream: ByteStream) -> Result<Vec<u8>, MailboxError> {
    stream
        .try_fold(Vec::new(), async |mut all, piece| {
            all.extend_from_slice(&piece);
            Ok(all)
        })
        .await
}
