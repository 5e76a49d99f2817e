//! A whole service in a temporary directory, and a client for it without sockets. The environment names its mail
//! server (`mailapi_testkit::TestBackend`). With sockets it is `mailapi_testkit::TestApp`, which `stories` uses.
//!
//! Every response is validated against the OpenAPI document. An operation that returns an undocumented status or
//! error code fails the test, whatever the test checks.

pub(crate) mod document;
mod event_stream;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use mailapi_backend::{Buffer, BufferSettings};
use mailapi_http::{HttpSettings, HttpState, router};
use mailapi_model::{Clock, Permission, Timestamp, TokenKind, TokenValue};
use mailapi_service::stats::LateInboundLog;
use mailapi_service::tokens::CreateToken;
use mailapi_service::{Caller, Metrics, Parts, Service, Settings};
use mailapi_store::Store;
use mailapi_testkit::{
    FakeClock, FakeDns, SeededEntropy, TestBackend, TestDatabase, TestMailServer, TestMailServerParts,
};
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) use event_stream::EventStream;
pub(crate) use trouble::{PANICS, Trouble};

/// Password of every user in these tests.
pub(crate) const PASSWORD: &str = "correct horse";
/// Address whose server defers every delivery.
pub(crate) const EVE: &str = "eve@elsewhere.example";
/// Former address, which the server of the same domain rejects.
pub(crate) const GONE: &str = "gone@elsewhere.example";

/// The service under test.
pub(crate) struct App {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) dns: Arc<FakeDns>,
    pub(crate) mail_server: TestMailServer,
    pub(crate) trouble: Trouble,
    pub(crate) service: Service,
    pub(crate) store: Store,
    pub(crate) settings: HttpSettings,
    pub(crate) router: Router,
    /// An admin's API token.
    pub(crate) admin: String,
    _inbound: Arc<Service>,
    _database: TestDatabase,
    _directory: tempfile::TempDir,
}

impl App {
    /// Starts a service without any domain or user.
    pub(crate) async fn start() -> Self {
        Self::with(|_, _| ()).await
    }

    /// Like `start`, with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings, &mut HttpSettings)) -> Self {
        let backend = TestBackend::of_environment();
        let (clock, dns) = (Arc::new(backend.clock()), Arc::new(FakeDns::default()));
        let directory = tempfile::tempdir().unwrap();
        let database = TestDatabase::open(directory.path(), clock.now()).await;
        let store = database.store();
        let (entropy, inbound) = (Arc::new(SeededEntropy::default()), Arc::new(LateInboundLog::default()));
        let mail_server = TestMailServer::start(
            backend,
            TestMailServerParts {
                database: &database,
                directory: directory.path(),
                message_store: Default::default(),
                clock: clock.clone(),
                entropy: entropy.clone(),
                inbound: inbound.clone(),
            },
        )
        .await;
        mail_server.sink.refuse(EVE, &["450 4.2.0 Come again later"; 9]);
        mail_server.sink.refuse(GONE, &["550 5.1.1 No such user"; 9]);
        let trouble = Trouble::before(mail_server.backend());
        let mut settings = Settings { password_rounds: 1000, security_analysis: true, ..Settings::default() };
        let mut http = HttpSettings::default();
        change(&mut settings, &mut http);
        let service = Service::new(Parts {
            store: store.clone(),
            backend: trouble.backend(),
            dns: dns.clone(),
            fresh_dns: dns.clone(),
            zone_dns: dns.clone(),
            clock: clock.clone(),
            entropy,
            buffer: Buffer::new(BufferSettings::new(directory.path())),
            metrics: Metrics::default(),
            settings,
        });
        let router = router(HttpState::new(service.clone(), http.clone()));
        let admin = token(&service, TokenKind::Admin, None).await;
        let for_inbound = Arc::new(service.clone());
        inbound.attach(&for_inbound);
        Self {
            clock,
            dns,
            mail_server,
            trouble,
            service,
            store,
            settings: http,
            router,
            admin,
            _inbound: for_inbound,
            _database: database,
            _directory: directory,
        }
    }

    /// Returns the current time of the clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the time this long ago.
    pub(crate) fn ago(&self, time: Duration) -> Timestamp {
        Timestamp::from_millis(self.now().as_millis() - i64::try_from(time.as_millis()).unwrap())
    }

    /// Delivers a message from outside; lines end with LF here.
    pub(crate) async fn deliver(&self, mailbox: &str, message: &str) {
        let message = message.replace('\n', "\r\n");
        self.mail_server.deliver("ann@elsewhere.example", mailbox, &[message.as_bytes()]).await;
    }

    /// Stores a message in a folder, like a mail client; creates the folder if it is missing.
    pub(crate) async fn append(&self, mailbox: &str, folder: &str, message: &str) {
        self.mail_server.append(mailbox, folder, message.replace('\n', "\r\n").as_bytes()).await;
    }

    /// Waits until the mail server has tried all deliveries, and reads its reports through the API.
    pub(crate) async fn sync(&self) -> Value {
        self.mail_server.settle().await;
        let synced = self.get(&self.admin, "/mail/delivery-log/sync").await.assert(StatusCode::OK);
        while self.service.complete_received_once().await.unwrap() {}
        synced
    }

    /// Makes stored events visible, as the background loop does.
    pub(crate) async fn read_events(&self) {
        while self.service.read_events_once().await.unwrap() {}
    }

    /// Runs the background loop that reads events until `work` is done.
    pub(crate) async fn while_reading_events<T>(&self, work: impl Future<Output = T>) -> T {
        let reading = async {
            loop {
                self.read_events().await;
                self.service.events_written().await;
            }
        };
        tokio::select! {
            done = work => done,
            () = reading => unreachable!(),
        }
    }

    /// Starts a service with the domain `example.org` and its users Ann and Bob; returns their tokens.
    pub(crate) async fn with_ann_and_bob() -> (Self, String, String) {
        let app = Self::start().await;
        app.domain("example.org").await;
        let ann = app.user("ann@example.org").await;
        let bob = app.user("bob@example.org").await;
        (app, ann, bob)
    }

    /// Adds a domain.
    pub(crate) async fn domain(&self, name: &str) {
        self.service.create_domain(&Caller::operator(), name.parse().unwrap(), None).await.unwrap();
    }

    /// Adds a user; returns a token of that user.
    pub(crate) async fn user(&self, email: &str) -> String {
        let user = json!({ "email": email, "password": PASSWORD });
        self.post(&self.admin, "/users", user).await.assert(StatusCode::CREATED);
        token(&self.service, TokenKind::User, Some(email)).await
    }

    /// Delegates a permission on `domain`, which must exist, to `email`.
    pub(crate) async fn grant(&self, email: &str, permission: Permission, domain: &str) {
        let (email, domain) = (email.parse().unwrap(), domain.parse().unwrap());
        self.service.grant_permission(&Caller::operator(), &email, permission, &domain).await.unwrap();
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Answer {
        self.send(api(Method::GET, path).header("X-MAILAPI-TOKEN", token).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn delete(&self, token: &str, path: &str) -> Answer {
        self.send(api(Method::DELETE, path).header("X-MAILAPI-TOKEN", token).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn put(&self, token: &str, path: &str, body: Value) -> Answer {
        let request = api(Method::PUT, path).header("X-MAILAPI-TOKEN", token);
        self.send(request.header(header::CONTENT_TYPE, "application/json").body(body.to_string().into()).unwrap()).await
    }

    /// Sends a POST without a body.
    pub(crate) async fn post_empty(&self, token: &str, path: &str) -> Answer {
        self.send(api(Method::POST, path).header("X-MAILAPI-TOKEN", token).body(Body::empty()).unwrap()).await
    }

    /// Logs in; returns the session's token.
    pub(crate) async fn log_in(&self, email: &str) -> String {
        let body = json!({ "email": email, "password": PASSWORD });
        let session = self.post("", "/auth/login", body).await.assert(StatusCode::OK);
        session["token"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: Value) -> Answer {
        self.post_text(token, path, body.to_string()).await
    }

    /// Like `post`, with an Idempotency-Key.
    pub(crate) async fn post_named(&self, token: &str, path: &str, key: &str, body: impl Into<Body>) -> Answer {
        let request = api(Method::POST, path).header("X-MAILAPI-TOKEN", token).header("Idempotency-Key", key);
        self.send(request.header("content-type", "application/json").body(body.into()).unwrap()).await
    }

    /// Sends a body that may be invalid JSON.
    pub(crate) async fn post_text(&self, token: &str, path: &str, body: impl Into<Body>) -> Answer {
        let request = api(Method::POST, path).header("X-MAILAPI-TOKEN", token);
        self.send(request.header(header::CONTENT_TYPE, "application/json").body(body.into()).unwrap()).await
    }

    /// Opens the event stream with this query, and with a `Last-Event-ID` unless it is empty.
    pub(crate) async fn stream(&self, token: &str, query: &str, last_id: &str) -> EventStream {
        let request = api(Method::GET, &format!("/events/stream{query}")).header("X-MAILAPI-TOKEN", token);
        let request = if last_id.is_empty() { request } else { request.header("Last-Event-ID", last_id) };
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        EventStream::over(response.into_body())
    }

    /// Sends any request.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        // An event stream never ends; its first piece arrives at once.
        let bytes = match event_stream::is_one(&parts.headers) {
            true => EventStream::over(body).piece().await.unwrap_or_default(),
            false => body.collect().await.unwrap().to_bytes(),
        };
        let answer = Answer { status: parts.status, headers: parts.headers, bytes };
        document::check(&method, &path, &answer);
        answer
    }
}

/// Builds a request to a path of the API.
pub(crate) fn api(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(format!("/api/v1{path}"))
}

/// Creates a token.
pub(crate) async fn token(service: &Service, kind: TokenKind, email: Option<&str>) -> String {
    let email = email.map(|email| email.parse().unwrap());
    let new = CreateToken { name: "test".to_owned(), kind, email, expires_at: None };
    let (_, value): (_, TokenValue) = service.create_token(&Caller::operator(), new).await.unwrap();
    value.expose().to_owned()
}

/// Returns whether `shown` is close to `time`: a real mail server writes times of its own clock.
pub(crate) fn is_about(shown: &Value, time: Timestamp) -> bool {
    const NEARBY_MILLIS: i64 = 60_000;
    let shown = shown.as_str().and_then(|text| Timestamp::parse_date_or_time(text).ok());
    shown.is_some_and(|shown| (shown.as_millis() - time.as_millis()).abs() <= NEARBY_MILLIS)
}

/// Formats a time in another zone, encoded for a query.
pub(crate) fn elsewhere(time: Timestamp) -> String {
    const HOUR_MILLIS: i64 = 3_600_000;
    Timestamp::from_millis(time.as_millis() + 2 * HOUR_MILLIS).to_string().replace('Z', "%2B02:00")
}

/// Returns the day of a time.
pub(crate) fn day(time: Timestamp) -> String {
    time.to_string()[..10].to_owned()
}

/// Response of the service.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("no JSON: {:?}", self.bytes))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Checks the status and returns the JSON.
    #[track_caller]
    pub(crate) fn assert(&self, status: StatusCode) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.bytes));
        self.json()
    }

    /// Checks the envelope and returns the message.
    #[track_caller]
    pub(crate) fn assert_error(&self, status: u16, code: &str) -> String {
        let body = self.json();
        let seen = (self.status.as_u16(), body["error"].as_str(), body["success"].as_bool());
        assert_eq!(seen, (status, Some(code), Some(false)), "{body}");
        body["message"].as_str().expect("a message").to_owned()
    }

    /// Returns the fields that a validation error names.
    #[track_caller]
    pub(crate) fn assert_invalid(&self) -> Vec<String> {
        self.assert_error(422, "VALIDATION_ERROR");
        let body = self.json();
        let details = body["details"].as_array().expect("details");
        let field = |detail: &Value| {
            assert!(!detail["message"].as_str().unwrap().is_empty());
            detail["field"].as_str().unwrap().to_owned()
        };
        details.iter().map(field).collect()
    }
}
