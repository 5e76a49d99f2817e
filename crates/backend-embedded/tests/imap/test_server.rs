//! A mail server in a temporary directory with its IMAP listener open.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use mailapi_backend::{
    Buffer, BufferSettings, InboundLog, InboundMail, JudgeInbound, Judgement, LoggedIn, Login, LoginError,
    Provisioning, SendAsError, SignError, SignOutgoing, Validator,
};
use mailapi_backend_embedded::accept::{Incoming, Relaying};
use mailapi_backend_embedded::net::Shutdown;
use mailapi_backend_embedded::{
    Authenticators, Embedded, ListenAddresses, ListenerSettings, Listeners, MessageStore, MessageStoreSettings,
};
use mailapi_imap::Flags;
use mailapi_model::{
    Blob, Clock, DomainName, EmailAddress, FolderName, Grants, InboundEvent, SecretText, SendAs, Visitor,
};
use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_testkit::{FakeClock, SeededEntropy};
use tempfile::TempDir;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Client, PATIENCE};

/// The password of every user.
pub(crate) const PASSWORD: &str = "secret";

/// The server; its clock does not advance.
pub(crate) struct TestServer {
    directory: TempDir,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) message_store: MessageStore,
    pub(crate) address: SocketAddr,
    authenticator: Arc<TestAuthenticator>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Settings that a test can change.
pub(crate) struct TestServerSettings {
    pub(crate) message_store: MessageStoreSettings,
    pub(crate) listeners: ListenerSettings,
    /// Its directory is replaced by the server's.
    pub(crate) buffer: BufferSettings,
}

impl TestServer {
    /// Opens a server with the domain example.org and the mailboxes ann and bob.
    pub(crate) async fn open() -> Self {
        Self::open_with(|_| {}).await
    }

    /// Like [`TestServer::open`], with changed settings.
    pub(crate) async fn open_with(change: impl FnOnce(&mut TestServerSettings)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = TestServerSettings {
            message_store: MessageStoreSettings::default(),
            listeners: ListenerSettings::new("mx.example.org"),
            buffer: BufferSettings::new(directory.path()),
        };
        settings.listeners.imap.failed_login_delay = std::time::Duration::ZERO;
        change(&mut settings);
        let clock = Arc::new(FakeClock::default());
        let embedded = embedded(&directory, settings.message_store, settings.buffer, &clock).await;
        let message_store = embedded.message_store().clone();
        message_store.put_domain(&"example.org".parse().unwrap()).await.unwrap();
        for mailbox in [ann(), bob()] {
            message_store.put_mailbox(&mailbox, None).await.unwrap();
        }
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let addresses = ListenAddresses { imap: Some(any_port), ..ListenAddresses::default() };
        let listeners = Listeners::bind(&addresses).await.unwrap();
        let address = listeners.addresses().imap.unwrap();
        let (stop, shutdown) = Shutdown::channel();
        let authenticator = Arc::new(TestAuthenticator::default());
        let authenticators = Authenticators {
            login: authenticator.clone(),
            sign: authenticator.clone(),
            judge: authenticator.clone(),
            inbound: authenticator.clone(),
        };
        let tasks = listeners.open(&embedded, settings.listeners, authenticators, &shutdown);
        Self { directory, clock, message_store, address, authenticator, stop, tasks }
    }

    /// Returns a client that has read the greeting.
    pub(crate) async fn connect(&self) -> Client {
        let mut client = Client::connect(self.address).await;
        assert!(client.line().await.unwrap().starts_with("* OK "));
        client
    }

    /// Returns a client that is logged in as ann.
    pub(crate) async fn ann(&self) -> Client {
        let mut client = self.connect().await;
        client.ok(&format!("LOGIN ann@example.org {PASSWORD}")).await;
        client
    }

    /// Returns a client that is logged in as ann and has selected a folder.
    pub(crate) async fn ann_in(&self, folder: &str) -> Client {
        let mut client = self.ann().await;
        client.ok(&format!("SELECT \"{folder}\"")).await;
        client
    }

    /// Opens the same file with another handle, as another process would.
    pub(crate) async fn other_process(&self) -> MessageStore {
        let buffer = BufferSettings::new(self.directory.path());
        embedded(&self.directory, MessageStoreSettings::default(), buffer, &self.clock).await.message_store().clone()
    }

    /// Delivers a message to ann, as the SMTP listener does.
    pub(crate) async fn deliver(&self, message: &str) {
        let sender: EmailAddress = "eve@elsewhere.example".parse().unwrap();
        let message = Bytes::from(message.replace('\n', "\r\n"));
        let incoming = Incoming::new(Some(sender), [ann()], message, self.clock.now(), Relaying::Denied);
        self.message_store.accept(incoming).await.unwrap();
    }

    /// Appends a message to a folder of ann's.
    pub(crate) async fn put(&self, folder: &str, message: impl Into<Bytes>) -> u32 {
        let name: FolderName = folder.parse().unwrap();
        self.message_store.append(&ann(), &name, &Flags::new(), None, message.into()).await.unwrap().uid
    }

    /// Queries the database directly.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.database().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Opens the database directly.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.directory.path().join("mail.db")).unwrap()
    }

    /// Disables every account.
    pub(crate) fn disable_everybody(&self) {
        self.authenticator.is_closed.store(true, Ordering::SeqCst);
    }

    /// Waits until a login was refused.
    pub(crate) async fn refused(&self) {
        timeout(PATIENCE, self.authenticator.refused.notified()).await.expect("a login is refused in time");
    }

    /// Sends the shutdown signal.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Sends the shutdown signal and waits for the end of all sessions.
    pub(crate) async fn end(mut self) {
        self.stop();
        let ended = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.unwrap();
            }
        };
        timeout(PATIENCE, ended).await.expect("the server ends in time");
    }
}

async fn embedded(
    directory: &TempDir,
    settings: MessageStoreSettings,
    buffer: BufferSettings,
    clock: &Arc<FakeClock>,
) -> Embedded {
    let sqlite = Sqlite::open(&directory.path().join("mail.db"), SqliteSettings::default()).unwrap();
    let (entropy, buffer) = (Arc::new(SeededEntropy::default()), Buffer::new(buffer));
    Embedded::open(sqlite, settings, clock.clone(), entropy, buffer).await.unwrap()
}

pub(crate) fn ann() -> EmailAddress {
    "ann@example.org".parse().unwrap()
}

pub(crate) fn bob() -> EmailAddress {
    "bob@example.org".parse().unwrap()
}

/// Accepts every user with the right password. `locked` is locked, and `unlucky` gets a temporary failure.
#[derive(Default)]
struct TestAuthenticator {
    is_closed: AtomicBool,
    refused: Notify,
}

#[async_trait]
impl Login for TestAuthenticator {
    async fn log_in(&self, user: &str, password: &SecretText, _from: Visitor) -> Result<LoggedIn, LoginError> {
        match user {
            "locked@example.org" => return Err(LoginError::Locked),
            "unlucky@example.org" => return Err(LoginError::Unavailable),
            "admin" if password.expose() == PASSWORD => return Ok(entered(Grants::admin_token())),
            _ => {}
        }
        let address: EmailAddress = user.parse().map_err(|_| LoginError::Refused)?;
        let fits = password.expose() == PASSWORD;
        if !fits {
            self.refused.notify_one();
            return Err(LoginError::Refused);
        }
        Ok(entered(Grants::of_mailbox(address, false, Vec::new())))
    }

    async fn renew(&self, _session: &mut LoggedIn) -> Result<(), LoginError> {
        if self.is_closed.load(Ordering::SeqCst) { Err(LoginError::Refused) } else { Ok(()) }
    }

    async fn may_send_as(&self, grants: &Grants, address: &EmailAddress) -> Result<SendAs, SendAsError> {
        Ok(grants.may_send_as(address, false)?)
    }
}

const fn entered(grants: Grants) -> LoggedIn {
    let unchanged = Validator::new([0, 0]);
    LoggedIn { grants, accounts: unchanged, password: unchanged, app_password: None }
}

impl InboundLog for TestAuthenticator {
    fn note(&self, _event: InboundEvent) {}
}

#[async_trait]
impl JudgeInbound for TestAuthenticator {
    async fn judge(&self, _mail: InboundMail<'_>) -> Judgement {
        Judgement::unchecked()
    }
}

#[async_trait]
impl SignOutgoing for TestAuthenticator {
    async fn sign(&self, _from: &DomainName, message: Blob) -> Result<Blob, SignError> {
        Ok(message)
    }
}
