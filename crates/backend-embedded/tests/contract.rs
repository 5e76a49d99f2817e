//! The contract suite on the embedded mail server.

mod as_it_is_shipped {
    use mailapi_backend_embedded::MessageStoreSettings;

    use crate::EmbeddedFixture;

    async fn fixture() -> EmbeddedFixture {
        EmbeddedFixture::open(MessageStoreSettings::default(), true).await
    }

    mailapi_backend::backend_contract!(fixture);
}

/// Every read crosses chunk borders and counts as long, and every search reads the texts.
mod in_small_pieces_and_without_the_index {
    use mailapi_backend_embedded::MessageStoreSettings;

    use crate::EmbeddedFixture;

    async fn fixture() -> EmbeddedFixture {
        let long_from_the_start =
            MessageStoreSettings { inline_bytes: 0, inline_entries: 0, ..MessageStoreSettings::default() };
        EmbeddedFixture::open(MessageStoreSettings { chunk_bytes: 61, ..long_from_the_start }, false).await
    }

    mailapi_backend::backend_contract!(fixture);
}

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use mailapi_backend::contract::Fixture;
use mailapi_backend::{Backend, Buffer, BufferSettings};
use mailapi_backend_embedded::accept::{Incoming, Relaying};
use mailapi_backend_embedded::message_store::{FlagChange, Folder};
use mailapi_backend_embedded::{Embedded, MessageStore, MessageStoreSettings};
use mailapi_imap::Flags;
use mailapi_model::{Clock, DomainName, EmailAddress, FolderName, MessageId};
use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_testkit::{FakeClock, SeededEntropy};
use tempfile::TempDir;

/// A mail server on its own database.
struct EmbeddedFixture {
    _directory: TempDir,
    clock: Arc<FakeClock>,
    entropy: Arc<SeededEntropy>,
    embedded: Embedded,
    backend: Backend,
    domain: DomainName,
    is_maintained: bool,
}

impl EmbeddedFixture {
    async fn open(settings: MessageStoreSettings, is_maintained: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sqlite = Sqlite::open(&directory.path().join("mail.db"), SqliteSettings::default()).unwrap();
        let (clock, entropy) = (Arc::new(FakeClock::default()), Arc::new(SeededEntropy::default()));
        let buffer = Buffer::new(BufferSettings::new(directory.path()));
        let embedded = Embedded::open(sqlite, settings, clock.clone(), entropy.clone(), buffer).await.unwrap();
        let (backend, domain) = (embedded.backend(), "example.org".parse().unwrap());
        backend.provisioning.put_domain(&domain).await.unwrap();
        Self { _directory: directory, clock, entropy, embedded, backend, domain, is_maintained }
    }

    fn message_store(&self) -> &MessageStore {
        self.embedded.message_store()
    }

    async fn folder(&self, mailbox: &EmailAddress, folder: &FolderName) -> Folder {
        self.message_store().folder(mailbox, folder).await.unwrap()
    }
}

#[async_trait]
impl Fixture for EmbeddedFixture {
    fn backend(&self) -> &Backend {
        &self.backend
    }

    fn domain(&self) -> &DomainName {
        &self.domain
    }

    fn new_message_id(&self) -> MessageId {
        MessageId::random(self.clock.now(), &*self.entropy)
    }

    async fn deliver(&self, mailbox: &EmailAddress, message: &[u8]) {
        let sender = Some("eve@elsewhere.example".parse().unwrap());
        let message = Bytes::copy_from_slice(message);
        let incoming = Incoming::new(sender, [mailbox.clone()], message, self.clock.now(), Relaying::Denied);
        self.message_store().accept(incoming).await.unwrap();
    }

    async fn create_folder(&self, mailbox: &EmailAddress, folder: &FolderName) {
        self.message_store().create_folder(mailbox, folder).await.unwrap();
    }

    async fn set_flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, flags: &[&str]) {
        let folder = self.folder(mailbox, folder).await.id;
        let flags = Flags::from_words(flags.iter().copied());
        self.message_store().store_flags(folder, vec![uid], FlagChange::Set, flags).await.unwrap();
    }

    async fn move_message(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, target: &FolderName) {
        let folder = self.folder(mailbox, folder).await.id;
        self.message_store().move_messages(folder, vec![uid], target).await.unwrap();
    }

    async fn flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Vec<String> {
        let folder = self.folder(mailbox, folder).await.id;
        let entries = self.message_store().fetch_meta(folder, vec![uid]).await.unwrap();
        entries.iter().flat_map(|entry| entry.state.flags.words()).map(str::to_owned).collect()
    }

    async fn settle(&self) {
        if self.is_maintained {
            self.message_store().maintain_until_done().await.unwrap();
        }
    }
}
