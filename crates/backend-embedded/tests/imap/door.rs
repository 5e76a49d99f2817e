//! A mail server in a temporary directory with its IMAP door open.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use mailapi_backend::{
    InboundLog, LogIn, LogInError, LogInMark, LoggedIn, Provisioning, SendAsError, SignError, SignOutgoing, Spool,
    SpoolSettings,
};
use mailapi_backend_embedded::accept::{Incoming, Relaying};
use mailapi_backend_embedded::net::Shutdown;
use mailapi_backend_embedded::{
    Embedded, Gatekeepers, ListenAddresses, ListenerSettings, Listeners, Maildrop, MaildropSettings,
};
use mailapi_imap::Flags;
use mailapi_model::{
    Clock, DomainName, EmailAddress, FolderName, Grants, InboundEvent, Octets, SecretText, SendAs, Visitor,
};
use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_testkit::{FakeClock, SeededEntropy};
use tempfile::TempDir;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Client, PATIENCE};

/// The password of everybody.
pub(crate) const PASSWORD: &str = "secret";

/// The server; its clock stands still.
pub(crate) struct Door {
    directory: TempDir,
    clock: Arc<FakeClock>,
    pub(crate) maildrop: Maildrop,
    pub(crate) address: SocketAddr,
    gatekeeper: Arc<Gatekeeper>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// How a server of a test differs from the defaults.
pub(crate) struct DoorSettings {
    pub(crate) maildrop: MaildropSettings,
    pub(crate) listeners: ListenerSettings,
    /// Its directory is the server's.
    pub(crate) spool: SpoolSettings,
}

impl Door {
    /// With the domain example.org and the mailboxes ann and bob.
    pub(crate) async fn open() -> Self {
        Self::open_with(|_| {}).await
    }

    /// The same with settings that the test changes.
    pub(crate) async fn open_with(change: impl FnOnce(&mut DoorSettings)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = DoorSettings {
            maildrop: MaildropSettings::default(),
            listeners: ListenerSettings::new("mx.example.org"),
            spool: SpoolSettings::new(directory.path()),
        };
        settings.listeners.imap.failed_login_delay = std::time::Duration::ZERO;
        change(&mut settings);
        let clock = Arc::new(FakeClock::default());
        let embedded = embedded(&directory, settings.maildrop, settings.spool, &clock).await;
        let maildrop = embedded.maildrop().clone();
        maildrop.put_domain(&"example.org".parse().unwrap()).await.unwrap();
        for mailbox in [ann(), bob()] {
            maildrop.put_mailbox(&mailbox, None).await.unwrap();
        }
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let addresses = ListenAddresses { imap: Some(any_port), ..ListenAddresses::default() };
        let listeners = Listeners::bind(&addresses).await.unwrap();
        let address = listeners.addresses().imap.unwrap();
        let (stop, shutdown) = Shutdown::channel();
        let gatekeeper = Arc::new(Gatekeeper::default());
        let (log_in, sign, inbound) = (gatekeeper.clone(), gatekeeper.clone(), gatekeeper.clone());
        let gatekeepers = Gatekeepers { log_in, sign, inbound };
        let tasks = listeners.open(&embedded, settings.listeners, gatekeepers, &shutdown);
        Self { directory, clock, maildrop, address, gatekeeper, stop, tasks }
    }

    /// A client that has been greeted.
    pub(crate) async fn connect(&self) -> Client {
        let mut client = Client::connect(self.address).await;
        assert!(client.line().await.unwrap().starts_with("* OK "));
        client
    }

    /// A client that has logged in as ann.
    pub(crate) async fn ann(&self) -> Client {
        let mut client = self.connect().await;
        client.ok(&format!("LOGIN ann@example.org {PASSWORD}")).await;
        client
    }

    /// A client that has logged in as ann and selected a folder.
    pub(crate) async fn ann_in(&self, folder: &str) -> Client {
        let mut client = self.ann().await;
        client.ok(&format!("SELECT \"{folder}\"")).await;
        client
    }

    /// The same file, opened by another handle, as by another process.
    pub(crate) async fn other_process(&self) -> Maildrop {
        let spool = SpoolSettings::new(self.directory.path());
        embedded(&self.directory, MaildropSettings::default(), spool, &self.clock).await.maildrop().clone()
    }

    /// Delivers a message to ann, as the SMTP listener does.
    pub(crate) async fn deliver(&self, message: &str) {
        let sender: EmailAddress = "eve@elsewhere.example".parse().unwrap();
        let message = Bytes::from(message.replace('\n', "\r\n"));
        let incoming = Incoming::new(Some(sender), [ann()], message, self.clock.now(), Relaying::Denied);
        self.maildrop.accept(incoming).await.unwrap();
    }

    /// Puts a message into a folder of ann's.
    pub(crate) async fn put(&self, folder: &str, message: impl Into<Bytes>) -> u32 {
        let name: FolderName = folder.parse().unwrap();
        self.maildrop.append(&ann(), &name, &Flags::new(), None, message.into()).await.unwrap().uid
    }

    /// The database, past the maildrop.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        let database = rusqlite::Connection::open(self.directory.path().join("mail.db")).unwrap();
        database.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Disables every account.
    pub(crate) fn disable_everybody(&self) {
        self.gatekeeper.is_closed.store(true, Ordering::SeqCst);
    }

    /// Waits until a log-in was refused.
    pub(crate) async fn refused(&self) {
        timeout(PATIENCE, self.gatekeeper.refused.notified()).await.expect("a log-in is refused in time");
    }

    /// Gives the signal to end.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Gives the signal to end and waits until all sessions have.
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
    settings: MaildropSettings,
    spool: SpoolSettings,
    clock: &Arc<FakeClock>,
) -> Embedded {
    let sqlite = Sqlite::open(&directory.path().join("mail.db"), SqliteSettings::default()).unwrap();
    let (entropy, spool) = (Arc::new(SeededEntropy::default()), Spool::new(spool));
    Embedded::open(sqlite, settings, clock.clone(), entropy, spool).await.unwrap()
}

pub(crate) fn ann() -> EmailAddress {
    "ann@example.org".parse().unwrap()
}

pub(crate) fn bob() -> EmailAddress {
    "bob@example.org".parse().unwrap()
}

/// Lets in whoever knows the password, and is neither `locked` nor met on a bad day.
#[derive(Default)]
struct Gatekeeper {
    is_closed: AtomicBool,
    refused: Notify,
}

#[async_trait]
impl LogIn for Gatekeeper {
    async fn log_in(&self, user: &str, password: &SecretText, _from: Visitor) -> Result<LoggedIn, LogInError> {
        match user {
            "locked@example.org" => return Err(LogInError::Locked),
            "unlucky@example.org" => return Err(LogInError::Unavailable),
            "admin" if password.expose() == PASSWORD => return Ok(entered(Grants::admin_token())),
            _ => {}
        }
        let address: EmailAddress = user.parse().map_err(|_| LogInError::Refused)?;
        let fits = password.expose() == PASSWORD;
        if !fits {
            self.refused.notify_one();
            return Err(LogInError::Refused);
        }
        Ok(entered(Grants::of_mailbox(address, false, Vec::new())))
    }

    async fn renew(&self, _session: &mut LoggedIn) -> Result<(), LogInError> {
        if self.is_closed.load(Ordering::SeqCst) { Err(LogInError::Refused) } else { Ok(()) }
    }

    async fn may_send_as(&self, grants: &Grants, address: &EmailAddress) -> Result<SendAs, SendAsError> {
        Ok(grants.may_send_as(address, false)?)
    }
}

const fn entered(grants: Grants) -> LoggedIn {
    LoggedIn { grants, mark: LogInMark { epoch: (0, 0), password: 0 } }
}

impl InboundLog for Gatekeeper {
    fn note(&self, _event: InboundEvent) {}
}

#[async_trait]
impl SignOutgoing for Gatekeeper {
    async fn sign(&self, _from: &DomainName, message: Octets) -> Result<Octets, SignError> {
        Ok(message)
    }
}
