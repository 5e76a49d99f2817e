//! The mail server of a service under test: the embedded one, or a private Postfix and Dovecot.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mailapi_backend::{Backend, Buffer, BufferSettings, InboundLog};
use mailapi_backend_embedded::accept::{Incoming, Relaying, Submitter};
use mailapi_backend_embedded::delivery_agent::{DeliveryAgent, DeliveryAgentSettings, Relay};
use mailapi_backend_embedded::message_store::MessageStoreError;
use mailapi_backend_embedded::{Embedded, MessageStoreSettings};
use mailapi_backend_external::External;
use mailapi_imap::Flags;
use mailapi_model::{Authentication, Clock, EmailAddress, Entropy, FolderName, SecurityMark};
use mailapi_store::Store;
use mailapi_store::sqlite::Sqlite;

use crate::{FakeClock, FakeDns, RealMailServer, SmtpSink, SubmissionRecorder, TestDatabase};

/// A back-off so long that no test sees a retry.
const LONG_BACKOFF_SECONDS: u32 = 3600;
const HOSTNAME: &str = "mx.example.org";

/// The kind of mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestBackend {
    /// The embedded mail server.
    Embedded,
    /// A private Postfix and Dovecot.
    External,
}

impl TestBackend {
    /// Returns the backend selected by `MAILAPI_TEST_BACKEND`: `embedded` (the default) or `external`.
    ///
    /// # Panics
    /// When the variable has another value.
    #[must_use]
    pub fn of_environment() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the backend of the tests is not a setting of the server")]
        let backend = std::env::var("MAILAPI_TEST_BACKEND").unwrap_or_default();
        match backend.as_str() {
            "" | "embedded" => Self::Embedded,
            "external" => Self::External,
            other => panic!("MAILAPI_TEST_BACKEND must be embedded or external, not {other}"),
        }
    }

    /// Returns a clock for tests with this backend. Real servers log the real time, so their clock starts
    /// there.
    #[must_use]
    pub fn clock(self) -> FakeClock {
        match self {
            Self::Embedded => FakeClock::default(),
            Self::External => FakeClock::at_real_time(),
        }
    }
}

/// A mail server, with one remote server that accepts the mail for all other domains.
pub struct TestMailServer {
    /// The remote server.
    pub sink: SmtpSink,
    clock: Arc<FakeClock>,
    kind: Kind,
}

/// The parts of a test's mail server.
pub struct TestMailServerParts<'a> {
    /// The accounts that have mailboxes.
    pub database: &'a TestDatabase,
    /// The directory for its data.
    pub directory: &'a Path,
    /// Settings of the embedded message store.
    pub message_store: MessageStoreSettings,
    /// The test's clock.
    pub clock: Arc<FakeClock>,
    /// The test's randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Records incoming mail, for mail servers that report it themselves.
    pub inbound: Arc<dyn InboundLog>,
}

enum Kind {
    Embedded { embedded: Embedded, delivery_agent: DeliveryAgent },
    External(Box<ExternalHost>),
}

struct ExternalHost {
    servers: RealMailServer,
    external: External,
    submitted: Arc<SubmissionRecorder>,
}

impl TestMailServer {
    /// Starts a mail server.
    ///
    /// # Panics
    /// When it cannot start.
    pub async fn start(backend: TestBackend, parts: TestMailServerParts<'_>) -> Self {
        let TestMailServerParts { database, directory, message_store, clock, entropy, inbound } = parts;
        let sink = SmtpSink::start().await;
        let kind = match backend {
            TestBackend::Embedded => {
                let buffer = Buffer::new(BufferSettings::new(directory));
                let embedded = open_embedded(database, database.file(), message_store, &clock, entropy, buffer).await;
                let address = sink.address();
                // All mail for other domains is sent to the sink.
                let relay = Some(Relay::new(address.ip().to_string(), address.port()));
                let settings = DeliveryAgentSettings { relay, ..DeliveryAgentSettings::default() };
                let dns = Arc::new(FakeDns::default());
                let delivery_agent = DeliveryAgent::new(embedded.message_store().clone(), HOSTNAME, dns, settings);
                Kind::Embedded { embedded, delivery_agent: delivery_agent.expect("a courier") }
            }
            TestBackend::External => {
                let lookup = database.lookup();
                let servers = RealMailServer::start_with(&lookup, sink.address(), |settings| {
                    settings.backoff_seconds = LONG_BACKOFF_SECONDS;
                });
                let servers = servers.await;
                let external = External::open(servers.settings(&directory.join("follower")), inbound, clock.clone());
                let external = external.expect("the settings fit together");
                let submitted = SubmissionRecorder::new(external.backend().submission);
                Kind::External(Box::new(ExternalHost { servers, external, submitted }))
            }
        };
        Self { sink, clock, kind }
    }

    /// Returns its port.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.kind {
            Kind::Embedded { embedded, .. } => embedded.backend(),
            Kind::External(host) => Backend { submission: host.submitted.clone(), ..host.external.backend() },
        }
    }

    /// Returns the port and the store of another process on the same data.
    ///
    /// # Panics
    /// When the data cannot be opened again.
    pub async fn beside(&self, database: &TestDatabase, entropy: Arc<dyn Entropy>, buffer: Buffer) -> (Store, Backend) {
        let (store, file) = database.another().await;
        match &self.kind {
            Kind::Embedded { .. } => {
                let embedded =
                    open_embedded(database, file, MessageStoreSettings::default(), &self.clock, entropy, buffer);
                (store, embedded.await.backend())
            }
            Kind::External(_) => (store, self.backend()),
        }
    }

    /// Delivers messages from another server one after the other, and waits until the mailbox has them. An
    /// empty sender is the null reverse-path.
    ///
    /// # Panics
    /// When the mail server does not accept them.
    pub async fn deliver(&self, from: &str, to: &str, messages: &[&[u8]]) {
        let message_store = match &self.kind {
            Kind::Embedded { embedded, .. } => embedded.message_store(),
            Kind::External(host) => {
                host.servers.postfix.deliver(from, to, messages).await;
                return;
            }
        };
        let sender: Option<EmailAddress> = (!from.is_empty()).then(|| from.parse().expect("an address"));
        let recipient: EmailAddress = to.parse().expect("an address");
        for message in messages {
            let message = Bytes::copy_from_slice(message);
            let now = self.clock.now();
            let incoming = Incoming::new(sender.clone(), [recipient.clone()], message, now, Relaying::Denied);
            message_store.accept(incoming).await.expect("an accepted message");
        }
    }

    /// Submits a message from a mail program that logged in to a mailbox. Returns false in front of Postfix.
    ///
    /// # Panics
    /// When the mail server does not accept it.
    pub async fn submit(&self, (mailbox, from): (&str, &str), to: &[&str], message: &str) -> bool {
        let Kind::Embedded { embedded, .. } = &self.kind else { return false };
        let address = |text: &str| -> EmailAddress { text.parse().expect("an address") };
        let (recipients, now) = (to.iter().map(|text| address(text)), self.clock.now());
        let message = Bytes::copy_from_slice(message.as_bytes());
        let mut incoming = Incoming::new(Some(address(from)), recipients, message, now, Relaying::Allowed);
        incoming.submitter = Some(Submitter { mailbox: address(mailbox), from: address(from) });
        embedded.message_store().accept(incoming).await.expect("an accepted message");
        true
    }

    /// Delivers a message from another server with results of its checks. Returns false in front of Postfix.
    ///
    /// # Panics
    /// When the mail server does not accept it.
    pub async fn deliver_checked(&self, from: &str, to: &str, message: &str, results: Authentication) -> bool {
        let Kind::Embedded { embedded, .. } = &self.kind else { return false };
        let address = |text: &str| -> EmailAddress { text.parse().expect("an address") };
        let mark = SecurityMark { verdict: "suspicious".to_owned(), signs: vec!["macros".to_owned()] };
        let message = Bytes::from(format!("{mark}{message}"));
        let (sender, now) = (Some(address(from)), self.clock.now());
        let mut incoming = Incoming::new(sender, [address(to)], message, now, Relaying::Denied);
        incoming.authentication = Some(results);
        incoming.security = Some(mark);
        embedded.message_store().accept(incoming).await.expect("an accepted message");
        true
    }

    /// Returns whether Dovecot lets a mail program log in; `None` for the built-in server, whose listeners do not run.
    ///
    /// # Panics
    /// When Dovecot cannot be queried.
    #[must_use]
    pub fn logs_in(&self, mailbox: &str, password: &str) -> Option<bool> {
        match &self.kind {
            Kind::Embedded { .. } => None,
            Kind::External(host) => Some(host.servers.dovecot.logs_in(mailbox, password)),
        }
    }

    /// Returns whether any listener accepts mail from other servers for this mailbox.
    ///
    /// # Panics
    /// When a listener does not speak SMTP or LMTP.
    pub async fn takes_mail(&self, from: &str, mailbox: &EmailAddress) -> bool {
        match &self.kind {
            Kind::Embedded { embedded, .. } => {
                let (now, message) = (self.clock.now(), Bytes::from_static(b"Subject: Hello\r\n\r\nHello\r\n"));
                let sender = Some(from.parse().expect("an address"));
                let incoming = Incoming::new(sender, [mailbox.clone()], message, now, Relaying::Denied);
                embedded.message_store().accept(incoming).await.is_ok()
            }
            Kind::External(host) => {
                let (postfix, dovecot) = (&host.servers.postfix, &host.servers.dovecot);
                let by_postfix = postfix.takes(from, mailbox.as_str()).await;
                by_postfix || dovecot.takes(from, mailbox.as_str()).await
            }
        }
    }

    /// Stores a message in a mailbox's INBOX directly, bypassing delivery.
    ///
    /// # Panics
    /// When the mailbox does not exist.
    pub async fn place(&self, mailbox: &EmailAddress, message: &[u8]) {
        match &self.kind {
            Kind::Embedded { .. } => self.deliver("eve@far.example", mailbox.as_str(), &[message]).await,
            Kind::External(host) => host.servers.dovecot.drop_message(mailbox.as_str(), 1, message),
        }
    }

    /// Stores a message in a folder, as a mail client does with a draft. Creates the folder if it is missing.
    ///
    /// # Panics
    /// When the mailbox does not exist.
    pub async fn append(&self, mailbox: &str, folder: &str, message: &[u8]) {
        let message_store = match &self.kind {
            Kind::Embedded { embedded, .. } => embedded.message_store(),
            Kind::External(host) => {
                let dovecot = &host.servers.dovecot;
                if !dovecot.has_folder(mailbox, folder) {
                    dovecot.create_folder(mailbox, folder);
                }
                return dovecot.append(mailbox, folder, message);
            }
        };
        let (mailbox, folder): (EmailAddress, FolderName) =
            (mailbox.parse().expect("an address"), folder.parse().expect("a folder's name"));
        match message_store.create_folder(&mailbox, &folder).await {
            Ok(_) | Err(MessageStoreError::FolderExists) => {}
            Err(error) => panic!("cannot create the folder: {error}"),
        }
        let message = Bytes::copy_from_slice(message);
        message_store.append(&mailbox, &folder, &Flags::default(), None, message).await.expect("room for a message");
    }

    /// Waits until delivery was attempted for every submitted recipient. Advances the clock if it lags behind
    /// the log.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn settle(&self) {
        match &self.kind {
            Kind::Embedded { delivery_agent, .. } => drop(delivery_agent.deliver_due_once().await.expect("the queue")),
            Kind::External(host) => {
                host.servers.postfix.done_with(&host.submitted.queue_ids()).await;
                self.clock.catch_up();
            }
        }
    }
}

async fn open_embedded(
    database: &TestDatabase,
    file: Sqlite,
    settings: MessageStoreSettings,
    clock: &Arc<FakeClock>,
    entropy: Arc<dyn Entropy>,
    buffer: Buffer,
) -> Embedded {
    let embedded = Embedded::open(file, settings, clock.clone(), entropy, buffer).await.expect("a maildrop");
    if database.is_one_file() { embedded.following_accounts() } else { embedded }
}
