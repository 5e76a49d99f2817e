//! A whole server in a temporary directory: the real store, a real mail server, the real operations, and HTTP
//! on a loopback port.
//!
//! Background loops do not run; tests call their steps. The environment selects the mail server and the
//! database engine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{Buffer, BufferSettings};
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_http::{HttpSettings, HttpState};
use mailapi_model::{Clock, EmailAddress, Secret, TokenKind};
use mailapi_service::stats::LateInboundLog;
use mailapi_service::tokens::CreateToken;
use mailapi_service::users::CreateUser;
use mailapi_service::{Caller, Metrics, Parts, Service, Settings};
use mailapi_store::Store;
use reqwest::Method;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::{
    FakeClock, FakeDns, OlderDatabase, PostgresDatabase, SeededEntropy, TestBackend, TestDatabase, TestEngine,
    TestMailServer, TestMailServerParts,
};

/// The password of every mailbox created by a test.
pub const PASSWORD: &str = "correct horse battery";

/// Seed of a second process.
const OTHER_SEED: u64 = 77;

/// A whole server.
pub struct TestApp {
    /// Its clock, which advances only on command.
    pub clock: Arc<FakeClock>,
    /// Its DNS.
    pub dns: Arc<FakeDns>,
    /// Its operations.
    pub service: Service,
    /// Its accounts and sent mail.
    pub store: Store,
    /// Its mail server.
    pub mail_server: TestMailServer,
    admin: String,
    address: SocketAddr,
    client: reqwest::Client,
    _stop: oneshot::Sender<()>,
    _inbound: Arc<Service>,
    directory: TempDir,
    database: TestDatabase,
}

/// Settings of a test server.
#[derive(Default)]
pub struct TestSettings {
    /// Settings of the operations.
    pub service: Settings,
    /// Settings of the HTTP server.
    pub http: HttpSettings,
    /// Settings of the message store.
    pub message_store: MessageStoreSettings,
    /// The database engine; by default that of the environment.
    pub engine: Option<TestEngine>,
    /// The older version whose database the server upgrades; by default the database is new.
    pub older: Option<OlderDatabase>,
}

impl TestApp {
    /// Starts a server with default settings, without request limits, and with cheap password hashes.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server with settings changed by the test.
    ///
    /// # Panics
    /// When the server cannot start.
    pub async fn start_with(change: impl FnOnce(&mut TestSettings)) -> Self {
        let mut settings = TestSettings::default();
        // Cheap hashes, checks that fail at once, and no request limits keep tests fast.
        settings.service.password_rounds = 1000;
        settings.service.webhooks.failed_check = Duration::ZERO;
        settings.http.limits.per_minute = 0;
        settings.http.limits.per_hour = 0;
        change(&mut settings);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let backend = TestBackend::of_environment();
        let (clock, dns) = (Arc::new(backend.clock()), Arc::new(FakeDns::default()));
        let engine = settings.engine.unwrap_or_else(TestEngine::of_environment);
        let database = match settings.older {
            Some(older) => TestDatabase::upgraded(engine, directory.path(), older, clock.now()).await,
            None => TestDatabase::open_on(engine, directory.path(), clock.now()).await,
        };
        let (entropy, inbound) = (Arc::new(SeededEntropy::default()), Arc::new(LateInboundLog::default()));
        let parts = TestMailServerParts {
            database: &database,
            directory: directory.path(),
            message_store: settings.message_store,
            clock: clock.clone(),
            entropy: entropy.clone(),
            inbound: inbound.clone(),
        };
        let mail_server = TestMailServer::start(backend, parts).await;
        let store = database.store();
        let service = Service::new(Parts {
            store: store.clone(),
            backend: mail_server.backend(),
            dns: dns.clone(),
            fresh_dns: dns.clone(),
            zone_dns: dns.clone(),
            clock: clock.clone(),
            entropy,
            buffer: Buffer::new(BufferSettings::new(directory.path())),
            metrics: Metrics::default(),
            settings: settings.service,
        });
        let for_inbound = Arc::new(service.clone());
        // The mail server had to start before the service.
        inbound.attach(&for_inbound);
        let admin = admin_token(&service).await;
        let (address, stop) = serve(service.clone(), settings.http).await;
        let client = reqwest::Client::new();
        Self {
            clock,
            dns,
            service,
            store,
            mail_server,
            admin,
            address,
            client,
            _stop: stop,
            _inbound: for_inbound,
            directory,
            database,
        }
    }

    /// Returns an admin's API token.
    #[must_use]
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// Returns the address of the HTTP listener.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the data directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns whether accounts and mail share one file.
    #[must_use]
    pub fn is_one_file(&self) -> bool {
        TestBackend::of_environment() == TestBackend::Embedded && self.database.is_one_file()
    }

    /// Returns the number of writes to the file with the mail; on SQLite it also has the accounts.
    #[must_use]
    pub fn writes_begun(&self) -> u64 {
        self.database.file().writes_begun()
    }

    /// Returns the PostgreSQL database, if the accounts are in one.
    #[must_use]
    pub const fn postgres(&self) -> Option<&PostgresDatabase> {
        self.database.postgres()
    }

    /// Opens the database as another process does.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn another_node(&self) -> Store {
        self.database.another_node().await
    }

    /// Returns the operations of another process on the same database and mail server, with its own locks.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn beside(&self, settings: Settings) -> Service {
        let buffer = Buffer::new(BufferSettings::new(self.directory.path()));
        let entropy = Arc::new(SeededEntropy::new(OTHER_SEED));
        let (store, backend) = self.mail_server.beside(&self.database, entropy.clone(), buffer.clone()).await;
        let (dns, fresh_dns, zone_dns) = (self.dns.clone(), self.dns.clone(), self.dns.clone());
        let clock = self.clock.clone();
        let metrics = Metrics::default();
        Service::new(Parts { store, backend, dns, fresh_dns, zone_dns, clock, entropy, buffer, metrics, settings })
    }

    /// Creates a domain.
    ///
    /// # Panics
    /// When that fails.
    pub async fn domain(&self, name: &str) {
        let name = name.parse().expect("a domain");
        self.service.create_domain(&Caller::operator(), name, None).await.expect("a new domain");
    }

    /// Creates a mailbox, and its domain if needed; returns a user token for it.
    ///
    /// # Panics
    /// When that fails.
    pub async fn user(&self, email: &str) -> String {
        self.mailbox(email, None).await;
        let new = CreateToken {
            name: "test".to_owned(),
            kind: TokenKind::User,
            email: Some(email.parse().expect("an address")),
            expires_at: None,
        };
        let (_, value) = self.service.create_token(&Caller::operator(), new).await.expect("a new token");
        value.expose().to_owned()
    }

    /// Creates a mailbox with this quota, and its domain if needed.
    ///
    /// # Panics
    /// When that fails.
    pub async fn mailbox(&self, email: &str, quota_bytes: Option<u64>) {
        let email: EmailAddress = email.parse().expect("an address");
        if self.store.domains().get(&email.domain()).await.expect("the store").is_none() {
            self.domain(email.domain_str()).await;
        }
        let password = Secret::new(PASSWORD.to_owned()).into();
        let new = CreateUser { email, password, name: String::new(), quota_bytes };
        self.service.create_user(&Caller::operator(), new).await.expect("a new user");
    }

    /// Delivers a message from another server.
    ///
    /// # Panics
    /// When the mail server does not accept it.
    pub async fn deliver(&self, from: &str, to: &str, message: &str) {
        let message = message.replace("\r\n", "\n").replace('\n', "\r\n");
        self.mail_server.deliver(from, to, &[message.as_bytes()]).await;
    }

    /// Waits until the mail server has attempted all deliveries, then reads its delivery feed to the end.
    ///
    /// # Panics
    /// When that fails.
    pub async fn settle(&self) {
        self.mail_server.settle().await;
        while self.service.follow_once().await.expect("the delivery feed").1 {}
        while self.service.complete_received_once().await.expect("the store") {}
    }

    /// Sends `GET` for a path below `/api/v1`. An empty token is omitted.
    pub async fn get(&self, token: &str, path: &str) -> Answer {
        self.request(Method::GET, token, path, None).await
    }

    /// Sends `POST` with a JSON body.
    pub async fn post(&self, token: &str, path: &str, body: Value) -> Answer {
        self.request(Method::POST, token, path, Some(body)).await
    }

    /// Sends `PUT` with a JSON body.
    pub async fn put(&self, token: &str, path: &str, body: Value) -> Answer {
        self.request(Method::PUT, token, path, Some(body)).await
    }

    /// Sends `DELETE`.
    pub async fn delete(&self, token: &str, path: &str) -> Answer {
        self.request(Method::DELETE, token, path, None).await
    }

    /// Sends any request below `/api/v1`.
    pub async fn request(&self, method: Method, token: &str, path: &str, body: Option<Value>) -> Answer {
        let mut request = self.raw(method, &format!("/api/v1{path}"));
        if !token.is_empty() {
            request = request.header("X-MAILAPI-TOKEN", token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        Answer::of(request).await
    }

    /// Starts building a request to a path from the root.
    pub fn raw(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }
}

/// An HTTP response.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Sends a request and reads the response.
    ///
    /// # Panics
    /// When there is no response.
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.expect("a whole body").to_vec() }
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {:?}", self.text()))
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns a header's value; empty if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the status, and the error code of the envelope.
    #[must_use]
    pub fn error(&self) -> (u16, String) {
        (self.status, self.json()["error"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the JSON body, and requires this status.
    ///
    /// # Panics
    /// When the status differs.
    #[must_use]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }
}

async fn admin_token(service: &Service) -> String {
    let new = CreateToken { name: "admin".to_owned(), kind: TokenKind::Admin, email: None, expires_at: None };
    let (_, value) = service.create_token(&Caller::operator(), new).await.expect("an admin token");
    value.expose().to_owned()
}

async fn serve(service: Service, settings: HttpSettings) -> (SocketAddr, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = listener.local_addr().expect("the address it listens on");
    let (stop, stopped) = oneshot::channel::<()>();
    let state = HttpState::new(service, settings.clone());
    let router = mailapi_http::router_with(state, mailapi_console::routes());
    tokio::spawn(async move {
        let ended = async { drop(stopped.await) };
        mailapi_http::serve(listener, router, &settings, ended).await;
    });
    (address, stop)
}
