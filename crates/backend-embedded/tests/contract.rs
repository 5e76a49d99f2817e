//! The contract suite on the embedded mail server: what every backend does.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use mailapi_backend::Backend;
use mailapi_backend::contract::Fixture;
use mailapi_backend_embedded::accept::{Incoming, Relaying};
use mailapi_backend_embedded::maildrop::{FlagChange, FolderId};
use mailapi_backend_embedded::{Embedded, Maildrop, MaildropSettings};
use mailapi_imap::Flags;
use mailapi_model::{Clock, DomainName, EmailAddress, FolderName, MessageId};
use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_testkit::{FakeClock, SeededEntropy};

struct EmbeddedFixture {
    backend: Backend,
    maildrop: Maildrop,
    domain: DomainName,
    clock: Arc<FakeClock>,
    ids: SeededEntropy,
    _folder: tempfile::TempDir,
}

impl EmbeddedFixture {
    async fn folder(&self, mailbox: &EmailAddress, folder: &FolderName) -> FolderId {
        self.maildrop.folder(mailbox, folder).await.unwrap().id
    }
}

async fn fixture() -> EmbeddedFixture {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = Sqlite::open(&folder.path().join("mail.db"), SqliteSettings::default()).unwrap();
    let clock = Arc::new(FakeClock::default());
    let entropy = Arc::new(SeededEntropy::new(1));
    let embedded = Embedded::open(sqlite, MaildropSettings::default(), clock.clone(), entropy).await.unwrap();
    EmbeddedFixture {
        backend: embedded.backend(),
        maildrop: embedded.maildrop().clone(),
        domain: "example.org".parse().unwrap(),
        clock,
        ids: SeededEntropy::new(2),
        _folder: folder,
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
        MessageId::random(&self.ids)
    }

    async fn deliver(&self, mailbox: &EmailAddress, message: &[u8]) {
        let sender = Some("ann@elsewhere.example".parse().unwrap());
        let message = Bytes::copy_from_slice(message);
        let incoming = Incoming::new(sender, [mailbox.clone()], message, self.clock.now(), Relaying::Denied);
        self.maildrop.accept(incoming).await.unwrap();
    }

    async fn create_folder(&self, mailbox: &EmailAddress, folder: &FolderName) {
        self.maildrop.create_folder(mailbox, folder).await.unwrap();
    }

    async fn set_flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, flags: &[&str]) {
        let folder = self.folder(mailbox, folder).await;
        let flags = Flags::from_words(flags.iter().copied());
        self.maildrop.store_flags(folder, vec![uid], FlagChange::Set, flags).await.unwrap();
    }

    async fn move_message(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, target: &FolderName) {
        let folder = self.folder(mailbox, folder).await;
        let moved = self.maildrop.move_messages(folder, vec![uid], target).await.unwrap();
        assert_eq!(moved.uids.len(), 1);
    }

    async fn flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Vec<String> {
        let entries = self.maildrop.select(mailbox, folder).await.unwrap().entries;
        let entry = entries.into_iter().find(|entry| entry.uid == uid).unwrap();
        entry.flags.words().map(ToOwned::to_owned).collect()
    }

    async fn settle(&self) {
        self.maildrop.keep_house_until_done().await.unwrap();
    }
}

mailapi_backend::backend_contract!(fixture);
