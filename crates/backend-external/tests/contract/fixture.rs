//! Each test has its own domain on a Postfix and a Dovecot that all tests of one engine share. Accounts are created
//! in the store, and mail arrives over SMTP. Dovecot's administration commands act as the mail clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use mailapi_backend::contract::Fixture;
use mailapi_backend::{Backend, InboundLog};
use mailapi_backend_external::External;
use mailapi_model::{
    AccountChange, Alias, Clock, DomainName, EmailAddress, FolderName, InboundEvent, MessageId, NewAccount, NewDomain,
    RuleSet, Secret, Timestamp,
};
use mailapi_store::{AliasStored, Store};
use mailapi_testkit::{
    RealClock, RealMailServer, SeededEntropy, SubmissionRecorder, TestDatabase, TestDirectory, TestEngine,
};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// No test sends to other servers: no process listens on this port.
const NO_SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

/// The servers that the tests of one engine share, until the process ends.
struct MailHost {
    servers: RealMailServer,
    database: TestDatabase,
    domains: AtomicU64,
    _directory: TestDirectory,
}

impl MailHost {
    async fn shared(engine: TestEngine) -> &'static Self {
        static ON_SQLITE: OnceCell<MailHost> = OnceCell::const_new();
        static ON_POSTGRESQL: OnceCell<MailHost> = OnceCell::const_new();
        let place = match engine {
            TestEngine::Sqlite => &ON_SQLITE,
            TestEngine::Postgres => &ON_POSTGRESQL,
        };
        place.get_or_init(|| Self::open(engine)).await
    }

    async fn open(engine: TestEngine) -> Self {
        let directory = TestDirectory::new();
        let database = TestDatabase::open_on(engine, directory.path(), RealClock.now()).await;
        let servers = RealMailServer::start(&database.lookup(), NO_SERVER).await;
        Self { servers, database, domains: AtomicU64::new(0), _directory: directory }
    }
}

/// The domain of one test, and its backend.
pub(crate) struct ExternalFixture {
    host: &'static MailHost,
    store: Store,
    backend: Backend,
    submitted: Arc<SubmissionRecorder>,
    domain: DomainName,
    entropy: SeededEntropy,
    _state: TempDir,
}

impl ExternalFixture {
    pub(crate) async fn open(engine: TestEngine) -> Self {
        let host = MailHost::shared(engine).await;
        let number = host.domains.fetch_add(1, Ordering::Relaxed);
        let domain: DomainName = format!("story-{number}.example").parse().expect("a domain");
        let store = host.database.another_node().await;
        let new = NewDomain {
            name: domain.clone(),
            active: true,
            description: None,
            creator_email: None,
            created_at: RealClock.now(),
        };
        store.domains().insert(&new, None).await.expect("a new domain");
        let state = tempfile::tempdir().expect("a temporary directory");
        let settings = host.servers.settings(state.path());
        let external =
            External::open(settings, Arc::new(NoInboundLog), Arc::new(RealClock)).expect("the settings fit together");
        let mut backend = external.backend();
        let submitted = SubmissionRecorder::new(backend.submission.clone());
        backend.submission = submitted.clone();
        let entropy = SeededEntropy::new(number);
        Self { host, store, backend, submitted, domain, entropy, _state: state }
    }
}

#[async_trait]
impl Fixture for ExternalFixture {
    fn backend(&self) -> &Backend {
        &self.backend
    }

    fn domain(&self) -> &DomainName {
        &self.domain
    }

    fn new_message_id(&self) -> MessageId {
        MessageId::random(RealClock.now(), &self.entropy)
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) {
        let (accounts, now) = (self.store.accounts(), RealClock.now());
        let change = AccountChange { quota_bytes: Some(quota_bytes), ..AccountChange::default() };
        if !accounts.update(mailbox, &change, now).await.expect("the store") {
            let new = NewAccount {
                email: mailbox.clone(),
                name: String::new(),
                password_hash: Secret::new("{CRYPT}*".to_owned()),
                quota_bytes,
                created_at: now,
            };
            accounts.insert(&new).await.expect("a new account");
            // The service does this once the mailbox of an earlier owner is empty.
            accounts.set_closed(mailbox, false).await.expect("the store");
        }
        self.backend.provisioning.put_mailbox(mailbox, quota_bytes).await.expect("the mailbox is put");
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) {
        self.backend.provisioning.remove_mailbox(mailbox).await.expect("the mailbox is removed");
        self.store.accounts().delete(mailbox, Timestamp::from_seconds(9)).await.expect("the store");
    }

    async fn put_alias(&self, alias: &Alias) {
        let stored = self.store.aliases().insert(alias).await.expect("the store");
        assert_eq!(stored, AliasStored::Stored);
    }

    async fn remove_alias(&self, address: &EmailAddress) {
        assert!(self.store.aliases().delete(address, RealClock.now()).await.expect("the store"));
    }

    async fn put_rules(&self, mailbox: &EmailAddress, rules: &RuleSet) {
        self.store.rules().put(mailbox, rules).await.expect("the store");
    }

    async fn deliver(&self, mailbox: &EmailAddress, message: &[u8]) {
        self.host.servers.postfix.deliver("ann@elsewhere.example", mailbox.as_str(), &[message]).await;
    }

    async fn create_folder(&self, mailbox: &EmailAddress, folder: &FolderName) {
        self.host.servers.dovecot.create_folder(mailbox.as_str(), folder.as_str());
    }

    async fn set_flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, flags: &[&str]) {
        self.host.servers.dovecot.set_flags(mailbox.as_str(), folder.as_str(), uid, flags);
    }

    async fn move_message(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, target: &FolderName) {
        self.host.servers.dovecot.move_message(mailbox.as_str(), folder.as_str(), uid, target.as_str());
    }

    async fn flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Vec<String> {
        self.host.servers.dovecot.flags(mailbox.as_str(), folder.as_str(), uid)
    }

    async fn settle(&self) {
        self.host.servers.postfix.done_with(&self.submitted.queue_ids()).await;
    }
}

/// An inbound log that ignores all events.
struct NoInboundLog;

impl InboundLog for NoInboundLog {
    fn note(&self, _: InboundEvent) {}
}
