//! A mail server with open listeners in a temporary directory. Its delivery agent runs only on request.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use mailapi_backend::{
    Buffer, BufferSettings, DeliveryFeed, InboundLog, InboundMail, JudgeInbound, Judgement, LoggedIn, Login,
    LoginError, Mailboxes, Provisioning, SendAsError, SendLimitReached, SignError, SignOutgoing, Validator,
};
use mailapi_backend_embedded::accept::{Incoming, Relaying};
use mailapi_backend_embedded::delivery_agent::{DeliveryAgent, DeliveryAgentSettings, Relay, TlsResult};
use mailapi_backend_embedded::net::{ServerTls, Shutdown};
use mailapi_backend_embedded::{
    Authenticators, Embedded, ListenAddresses, ListenerSettings, Listeners, MessageStore, MessageStoreSettings,
};
use mailapi_model::{
    Blob, Clock, DeliveryEvent, DomainName, EmailAddress, FeedCursor, FolderName, Grants, InboundEvent, InboundOutcome,
    InboundRefusal, Outcome, Page, Permission, SecretText, SendAs, Visitor,
};
use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_testkit::{FakeClock, FakeDns, SeededEntropy, SmtpSink};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) const HOSTNAME: &str = "mx.here.example";
pub(crate) const PASSWORD: &str = "secret";

/// Has the domain `here.example` with the mailboxes ann, bob and full (no room), and the domain
/// `team.example`, for which ann may send.
pub(crate) struct MailHost {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) dns: Arc<FakeDns>,
    pub(crate) message_store: MessageStore,
    pub(crate) smtp: SocketAddr,
    pub(crate) submission: SocketAddr,
    pub(crate) submissions: SocketAddr,
    pub(crate) imap: SocketAddr,
    pub(crate) imaps: SocketAddr,
    authenticator: Arc<TestAuthenticator>,
    tally: Arc<Tally>,
    pub(crate) judge: Arc<TestJudge>,
    stop: watch::Sender<bool>,
    listeners: JoinSet<()>,
    directory: TempDir,
}

/// Returns how often each result occurred since the last call; results that did not occur are left out.
pub(crate) fn tls_counts(agent: &DeliveryAgent) -> Vec<(TlsResult, u64)> {
    agent.take_tls_counts().filter(|(_, count)| *count > 0).collect()
}

impl MailHost {
    /// Returns the recorded inbound events: the recipient's domain, the sender's, and the outcome.
    pub(crate) fn counted(&self) -> Vec<(String, Option<String>, InboundOutcome)> {
        let events = self.tally.0.lock().unwrap();
        let shown = |event: &InboundEvent| {
            let sender = event.sender_domain.as_ref().map(ToString::to_string);
            (event.domain.to_string(), sender, event.outcome)
        };
        events.iter().map(shown).collect()
    }

    /// Returns the recorded refusals: the recipient, the stage, and the reply.
    pub(crate) fn refused(&self) -> Vec<(String, &'static str, String)> {
        let refusals = self.tally.1.lock().unwrap();
        assert!(refusals.iter().all(|refusal| refusal.client.is_some_and(|client| client.is_loopback())));
        assert!(refusals.iter().all(|refusal| refusal.sender == "zoe@far.example".parse().ok()));
        let shown = |refusal: &InboundRefusal| {
            (refusal.recipient.as_str().to_owned(), refusal.stage.as_str(), refusal.reply.to_string())
        };
        refusals.iter().map(shown).collect()
    }

    pub(crate) async fn open() -> Self {
        Self::open_with(|_, _| {}).await
    }

    /// Opens the server of `far.example`, which has the mailbox zoe and this certificate.
    pub(crate) async fn open_far(tls: ServerTls) -> Self {
        let far = Self::open_with(|listeners, _| listeners.tls = Some(tls)).await;
        far.message_store.put_domain(&"far.example".parse().unwrap()).await.unwrap();
        far.message_store.put_mailbox(&address("zoe@far.example"), None).await.unwrap();
        far
    }

    /// Sends a message and attempts its delivery; returns the outcome of the attempt, and the reply.
    pub(crate) async fn attempt(&self, agent: &DeliveryAgent, recipient: &str) -> (Outcome, String) {
        self.send(&[recipient], &mail("Hi")).await;
        agent.deliver_due_once().await.unwrap();
        let event = self.events().await.pop().unwrap();
        (event.outcome, event.response)
    }

    pub(crate) async fn open_with(change: impl FnOnce(&mut ListenerSettings, &mut MessageStoreSettings)) -> Self {
        Self::open_buffering(change, |_| {}).await
    }

    pub(crate) async fn open_buffering(
        change: impl FnOnce(&mut ListenerSettings, &mut MessageStoreSettings),
        change_buffer: impl FnOnce(&mut BufferSettings),
    ) -> Self {
        Self::open_at(SocketAddr::from(([127, 0, 0, 1], 0)), change, change_buffer).await
    }

    /// Opens a server whose listener for mail from outside has this address.
    pub(crate) async fn open_at(
        smtp: SocketAddr,
        change: impl FnOnce(&mut ListenerSettings, &mut MessageStoreSettings),
        change_buffer: impl FnOnce(&mut BufferSettings),
    ) -> Self {
        let mut settings = (ListenerSettings::new(HOSTNAME), MessageStoreSettings::default());
        settings.0.postmasters = vec![address("gone@here.example"), address("ann@here.example")];
        change(&mut settings.0, &mut settings.1);
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(FakeClock::default());
        let sqlite = Sqlite::open(&directory.path().join("mail.db"), SqliteSettings::default()).unwrap();
        let entropy = Arc::new(SeededEntropy::default());
        let mut buffer = BufferSettings::new(directory.path());
        change_buffer(&mut buffer);
        let buffer = Buffer::new(buffer);
        let embedded = Embedded::open(sqlite, settings.1, clock.clone(), entropy, buffer).await.unwrap();
        furnish(embedded.message_store()).await;
        let loopback = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let addresses = ListenAddresses {
            smtp: Some(smtp),
            submission: loopback,
            submissions: loopback,
            imap: loopback,
            imaps: loopback,
        };
        let listeners = Listeners::bind(&addresses).await.unwrap();
        let ListenAddresses { smtp, submission, submissions, imap, imaps } = listeners.addresses();
        let tally = Arc::new(Tally::default());
        let authenticator = Arc::new(TestAuthenticator::default());
        let judge = Arc::new(TestJudge::default());
        let authenticators = Authenticators {
            login: authenticator.clone(),
            sign: Arc::new(Seal),
            judge: judge.clone(),
            inbound: tally.clone(),
        };
        let (stop, shutdown) = Shutdown::channel();
        let listeners = listeners.open(&embedded, settings.0, authenticators, &shutdown);
        Self {
            clock,
            dns: Arc::default(),
            message_store: embedded.message_store().clone(),
            smtp: smtp.unwrap(),
            submission: submission.unwrap(),
            submissions: submissions.unwrap(),
            imap: imap.unwrap(),
            imaps: imaps.unwrap(),
            authenticator,
            tally,
            judge,
            stop,
            listeners,
            directory,
        }
    }

    /// Returns a delivery agent that relays everything to the sink.
    pub(crate) fn agent_to(&self, sink: &SmtpSink) -> DeliveryAgent {
        self.agent(|settings| settings.relay = relay_at(sink.address()))
    }

    pub(crate) fn agent(&self, change: impl FnOnce(&mut DeliveryAgentSettings)) -> DeliveryAgent {
        let mut settings = DeliveryAgentSettings::default();
        change(&mut settings);
        DeliveryAgent::new(self.message_store.clone(), HOSTNAME, self.dns.clone(), settings).unwrap()
    }

    /// Queues a message from ann, as the API does.
    pub(crate) async fn send(&self, recipients: &[&str], message: &str) {
        self.message_store.accept(self.outgoing(recipients, message)).await.unwrap();
    }

    pub(crate) fn outgoing(&self, recipients: &[&str], message: &str) -> Incoming {
        let sender = Some(address("ann@here.example"));
        let recipients: Vec<_> = recipients.iter().map(|text| address(text)).collect();
        Incoming::new(sender, recipients, message.to_owned(), self.clock.now(), Relaying::Allowed)
    }

    pub(crate) fn wait(&self, minutes: u64) {
        self.clock.advance(Duration::from_secs(minutes * 60));
    }

    /// Returns all events of the delivery feed as recipient, outcome and status code.
    pub(crate) async fn reported(&self) -> Vec<(String, Outcome, String)> {
        let code = |event: &DeliveryEvent| event.dsn.map(|dsn| dsn.to_string()).unwrap_or_default();
        let events = self.events().await;
        events.iter().map(|event| (event.recipient.to_string(), event.outcome, code(event))).collect()
    }

    pub(crate) async fn events(&self) -> Vec<DeliveryEvent> {
        self.message_store.read_after(&FeedCursor::default(), 1000).await.unwrap().events
    }

    /// Like [`MailHost::events`], for any number of events.
    pub(crate) async fn all_events(&self) -> Vec<DeliveryEvent> {
        let (mut cursor, mut events) = (FeedCursor::default(), Vec::new());
        loop {
            let batch = self.message_store.read_after(&cursor, 1000).await.unwrap();
            events.extend(batch.events);
            cursor = batch.cursor;
            if !batch.more {
                return events;
            }
        }
    }

    /// Returns the raw messages of an INBOX, oldest first.
    pub(crate) async fn inbox(&self, mailbox: &str) -> Vec<String> {
        let (mailbox, inbox) = (address(mailbox), FolderName::inbox());
        let listed = self.message_store.list(&mailbox, &inbox, Page::new(Page::MAX_LIMIT, 0)).await.unwrap();
        let mut messages = Vec::new();
        for summary in listed.items.iter().rev() {
            let opened = self.message_store.open_raw(&mailbox, &inbox, summary.uid).await.unwrap();
            let pieces: Vec<_> = opened.content.try_collect().await.unwrap();
            messages.push(String::from_utf8_lossy(&pieces.concat()).into_owned());
        }
        messages
    }

    /// Returns whether the queue is empty.
    pub(crate) async fn queue_is_empty(&self) -> bool {
        self.message_store.next_due_at().await.unwrap().is_none()
    }

    /// Opens the database directly.
    pub(crate) fn database(&self) -> Connection {
        Connection::open(self.directory.path().join("mail.db")).unwrap()
    }

    /// Disables every account.
    pub(crate) fn disable_everybody(&self) {
        self.authenticator.is_closed.store(true, Ordering::SeqCst);
    }

    /// Exhausts the daily sending limits of all mailboxes.
    pub(crate) fn exhaust_limits(&self) {
        self.authenticator.is_exhausted.store(true, Ordering::SeqCst);
    }

    /// Closes the listeners and waits for the end of all sessions.
    pub(crate) async fn close(mut self) {
        self.ask_to_leave();
        while let Some(ended) = self.listeners.join_next().await {
            ended.unwrap();
        }
    }

    pub(crate) fn ask_to_leave(&self) {
        self.stop.send_replace(true);
    }
}

async fn furnish(message_store: &MessageStore) {
    for domain in ["here.example", "team.example"] {
        message_store.put_domain(&domain.parse().unwrap()).await.unwrap();
    }
    for (mailbox, quota) in [("ann@here.example", None), ("bob@here.example", None), ("full@here.example", Some(500))] {
        message_store.put_mailbox(&address(mailbox), quota).await.unwrap();
    }
}

/// Returns a relay without TLS.
pub(crate) fn relay_at(address: SocketAddr) -> Option<Relay> {
    Some(Relay::new(address.ip().to_string(), address.port()))
}

pub(crate) fn address(text: &str) -> EmailAddress {
    text.parse().unwrap()
}

/// Returns a small message from ann.
pub(crate) fn mail(subject: &str) -> String {
    format!("From: ann@here.example\r\nSubject: {subject}\r\n\r\nHello.\r\n")
}

/// A local part without a user.
pub(crate) const NO_USER: &str = "no.user";

/// Authenticates ann; bob's account is locked.
#[derive(Default)]
struct TestAuthenticator {
    is_closed: AtomicBool,
    is_exhausted: AtomicBool,
}

#[async_trait]
impl Login for TestAuthenticator {
    async fn log_in(&self, user: &str, password: &SecretText, _from: Visitor) -> Result<LoggedIn, LoginError> {
        let grants = match (user, password.expose().as_str()) {
            ("ann@here.example", PASSWORD) => {
                let delegated = vec![(Permission::SendMail, "team.example".parse().unwrap())];
                Grants::of_mailbox(address("ann@here.example"), false, delegated)
            }
            ("bob@here.example", _) => return Err(LoginError::Locked),
            ("root@here.example", PASSWORD) => Grants::of_mailbox(address("root@here.example"), true, Vec::new()),
            _ => return Err(LoginError::Refused),
        };
        let unchanged = Validator::new([0, 0]);
        Ok(LoggedIn { grants, accounts: unchanged, password: unchanged, app_password: None })
    }

    async fn renew(&self, _session: &mut LoggedIn) -> Result<(), LoginError> {
        if self.is_closed.load(Ordering::SeqCst) { Err(LoginError::Refused) } else { Ok(()) }
    }

    async fn may_send_as(&self, grants: &Grants, address: &EmailAddress) -> Result<SendAs, SendAsError> {
        Ok(grants.may_send_as(address, address.local() != NO_USER)?)
    }

    async fn may_send_to(&self, _: &Grants, _: &[EmailAddress]) -> Result<(), SendLimitReached> {
        if self.is_exhausted.load(Ordering::SeqCst) { Err(SendLimitReached::Messages(7)) } else { Ok(()) }
    }
}

/// Records inbound mail.
#[derive(Default)]
struct Tally(Mutex<Vec<InboundEvent>>, Mutex<Vec<InboundRefusal>>);

impl InboundLog for Tally {
    fn note(&self, event: InboundEvent) {
        self.0.lock().unwrap().push(event);
    }

    fn refused(&self, refusal: InboundRefusal) {
        self.1.lock().unwrap().push(refusal);
    }
}

/// Gives the judgement that a test sets, and keeps what it was asked.
#[derive(Default)]
pub(crate) struct TestJudge {
    judgement: Mutex<Option<Judgement>>,
    asked: Mutex<Vec<(String, String, Blob)>>,
    envelopes: Mutex<Vec<(Vec<EmailAddress>, String)>>,
    clients: Mutex<Vec<IpAddr>>,
}

impl TestJudge {
    pub(crate) fn set(&self, judgement: Judgement) {
        *self.judgement.lock().unwrap() = Some(judgement);
    }

    /// Returns the client's name, the reverse-path and the message of each question.
    pub(crate) fn asked(&self) -> Vec<(String, String, Blob)> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the client of each question.
    pub(crate) fn clients(&self) -> Vec<String> {
        self.clients.lock().unwrap().iter().map(ToString::to_string).collect()
    }

    /// Returns the recipients and the queue id of each question.
    pub(crate) fn envelopes(&self) -> Vec<(Vec<EmailAddress>, String)> {
        self.envelopes.lock().unwrap().clone()
    }
}

#[async_trait]
impl JudgeInbound for TestJudge {
    async fn judge(&self, mail: InboundMail<'_>) -> Judgement {
        assert!(mail.hostname.starts_with("mx."));
        self.clients.lock().unwrap().push(mail.client);
        self.envelopes.lock().unwrap().push((mail.recipients.to_vec(), mail.queue_id.0.clone()));
        let asked = (mail.client_name.to_owned(), mail.sender.to_owned(), mail.message);
        self.asked.lock().unwrap().push(asked);
        self.judgement.lock().unwrap().clone().unwrap_or(Judgement::unchecked())
    }
}

/// Signs for `here.example` and `team.example`.
pub(crate) struct Seal;

#[async_trait]
impl SignOutgoing for Seal {
    async fn sign(&self, from: &DomainName, message: Blob) -> Result<Blob, SignError> {
        match from.as_str() {
            "here.example" | "team.example" => {
                Ok(Blob::joined([format!("DKIM-Signature: d={from}\r\n").into(), message]))
            }
            _ => Err(SignError::NotAllowed),
        }
    }
}
