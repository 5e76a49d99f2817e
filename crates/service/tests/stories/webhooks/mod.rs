//! Webhooks, and receivers that answer in every way.

mod clocks;
mod nodes;
mod rights;
mod slow;
mod upgrade;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mailapi_events::{EventId, webhook_disabled};
use mailapi_model::{Clock, Grants, Page, Secret, WebhookSigning};
use mailapi_service::Caller;
use mailapi_service::events::{After, EventCursor, EventQuery, TypePattern};
use mailapi_service::webhooks::{
    CreateWebhook, Replay, ReplayedEvents, UpdateWebhook, Webhook, WebhookDisabled, WebhookError, WebhookId,
    WebhookSender, WebhookStep, public_key,
};
use mailapi_testkit::TestApp;
use mailapi_webhooks::Trust;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use crate::{caller, message, with};

/// An answer that waits for `TestReceiver::release`.
const HELD: &str = "204 No Content\r\nX-Held: yes";
/// The time limit of a test that waits for a receiver.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message that a receiver got.
#[derive(Debug, Clone)]
struct Got {
    id: String,
    signatures: String,
    body: Value,
}

/// A receiver on this machine. It answers with the given statuses, and then with 204.
#[derive(Clone)]
struct TestReceiver {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
    answers: Arc<Mutex<VecDeque<&'static str>>>,
    /// Signals that an answer is held.
    held: Arc<Notify>,
    release: Arc<Notify>,
}

impl TestReceiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let receiver =
            Self { url, got: Arc::default(), answers: Arc::default(), held: Arc::default(), release: Arc::default() };
        let serving = receiver.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let serving = serving.clone();
                tokio::spawn(async move { serving.serve(stream).await });
            }
        });
        receiver
    }

    /// Waits until an answer is held.
    async fn holds(&self) {
        tokio::time::timeout(PATIENCE, self.held.notified()).await.unwrap();
    }

    /// Sets the next answers: status lines, with further header lines.
    fn answer(&self, answers: &[&'static str]) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// Returns what arrived since the last call.
    fn take(&self) -> Vec<Got> {
        std::mem::take(&mut self.got.lock().unwrap())
    }

    /// Returns the types of what arrived since the last call.
    fn types(&self) -> Vec<String> {
        self.take().iter().map(|got| got.body["type"].as_str().unwrap().to_owned()).collect()
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut read = Vec::new();
        while stream.read_buf(&mut read).await.is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&read).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let field = |name: &str| {
                let line = head.lines().find_map(|line| line.strip_prefix(name));
                line.map(|value| value.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
            };
            if body.len() < field("content-length").parse().unwrap() {
                continue;
            }
            read.clear();
            let (id, signatures) = (field("webhook-id"), field("webhook-signature"));
            self.got.lock().unwrap().push(Got { id, signatures, body: serde_json::from_str(body).unwrap() });
            let status = self.answers.lock().unwrap().pop_front().unwrap_or("204 No Content");
            if status.is_empty() {
                return;
            }
            if status == HELD {
                self.held.notify_one();
                self.release.notified().await;
            }
            stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await.unwrap();
        }
    }
}

fn admin() -> Caller {
    with(Grants::admin_token())
}

/// The types of events about sent messages. Most are sent to a mailbox here, which receives them.
fn of_sent_mail() -> Vec<TypePattern> {
    ["accepted", "delivered", "deferred", "bounced", "failed"]
        .map(|name| format!("message.{name}").parse().unwrap())
        .to_vec()
}

fn to(url: &str) -> CreateWebhook {
    CreateWebhook {
        url: url.to_owned(),
        types: of_sent_mail(),
        domain: None,
        mailbox: None,
        description: String::new(),
        signing: WebhookSigning::V1,
        secret: None,
        enabled: true,
    }
}

/// A server with a mailbox, a receiver and its webhook.
struct Setup {
    app: TestApp,
    ann: Caller,
    receiver: TestReceiver,
    webhook: Webhook,
    sender: WebhookSender,
}

impl Setup {
    async fn new() -> Self {
        let app = TestApp::start().await;
        let token = app.user("ann@example.org").await;
        let ann = caller(&app, &token).await;
        let receiver = TestReceiver::start().await;
        let (webhook, _) = app.service.create_webhook(&admin(), to(&receiver.url)).await.unwrap();
        let sender = app.service.webhook_sender();
        Self { app, ann, receiver, webhook, sender }
    }

    /// Sends a message; the receiver is due to get `message.accepted`, and `message.delivered` for each recipient.
    async fn send(&self, to: &[&str]) {
        self.app.service.send(&self.ann, message("ann@example.org", to)).await.unwrap();
        self.app.settle().await;
        while self.app.service.read_events_once().await.unwrap() {}
    }

    /// Sends what is due now.
    async fn run(&mut self) {
        while self.sender.send_once().await.unwrap().more {}
    }

    async fn state(&self) -> Webhook {
        self.app.service.get_webhook(&admin(), self.webhook.id).await.unwrap()
    }

    async fn failed(&self) -> usize {
        let page = Page::new(100, 0);
        self.app.service.webhook_deliveries(&admin(), self.webhook.id, page).await.unwrap().items.len()
    }
}

#[tokio::test]
async fn a_user_names_neither_this_machine_nor_another_mailbox() {
    let setup = Setup::new().await;
    let service = &setup.app.service;
    let refused = service.create_webhook(&setup.ann, to(&setup.receiver.url)).await;
    assert!(matches!(refused, Err(WebhookError::Invalid(_))), "{refused:?}");
    assert!(setup.receiver.take().is_empty(), "not even a challenge");
    let other = CreateWebhook { mailbox: Some("bob@example.org".parse().unwrap()), ..to("https://example.org/") };
    assert!(matches!(service.create_webhook(&setup.ann, other).await, Err(WebhookError::Denied(_))));
    let whole = CreateWebhook { domain: Some("example.org".parse().unwrap()), ..to("https://example.org/") };
    assert!(matches!(service.create_webhook(&setup.ann, whole).await, Err(WebhookError::Denied(_))));
    assert!(matches!(service.get_webhook(&setup.ann, setup.webhook.id).await, Err(WebhookError::Denied(_))));
    let off = UpdateWebhook { enabled: Some(false), ..UpdateWebhook::default() };
    assert!(matches!(service.update_webhook(&setup.ann, setup.webhook.id, off).await, Err(WebhookError::Denied(_))));
    assert!(matches!(service.delete_webhook(&setup.ann, setup.webhook.id).await, Err(WebhookError::Denied(_))));
    assert!(service.list_webhooks(&setup.ann, Page::new(10, 0)).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn what_is_no_receiver_is_refused() {
    let app = TestApp::start().await;
    app.dns.set_addresses("inside.example", &["10.0.0.1"]);
    let secret = |text: &str| Some(Secret::new(text.to_owned()));
    let url = "http://127.0.0.1:1/";
    for (new, field) in [
        (to("nothing"), "url"),
        (to("http://192.168.0.1/"), "url"),
        (to("https://169.254.169.254/latest/meta-data"), "url"),
        (to("https://inside.example/"), "url"),
        (to("https://unknown.example/"), "url"),
        (CreateWebhook { types: Vec::new(), ..to(url) }, "types"),
        (CreateWebhook { description: "two\nlines".to_owned(), ..to(url) }, "description"),
        (CreateWebhook { secret: secret("whsec_short"), ..to(url) }, "secret"),
        (CreateWebhook { secret: secret("x"), signing: WebhookSigning::V1a, ..to(url) }, "secret"),
    ] {
        match app.service.create_webhook(&admin(), new.clone()).await {
            Err(WebhookError::Invalid(violations)) => assert_eq!(violations.all()[0].field, field, "{new:?}"),
            other => panic!("{new:?}: {other:?}"),
        }
    }
    let unknown = CreateWebhook { domain: Some("nowhere.example".parse().unwrap()), ..to(url) };
    assert!(matches!(app.service.create_webhook(&admin(), unknown).await, Err(WebhookError::DomainNotFound)));
    let unknown = CreateWebhook { mailbox: Some("eve@nowhere.example".parse().unwrap()), ..to(url) };
    assert!(matches!(app.service.create_webhook(&admin(), unknown).await, Err(WebhookError::UserNotFound)));
}

#[tokio::test]
async fn a_receiver_gets_the_events_of_the_log_in_order_and_once() {
    let mut setup = Setup::new().await;
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    let got = setup.receiver.take();
    let types = of_sent_mail();
    let query = EventQuery { after: After::Start, types, ..EventQuery::default() };
    let log = setup.app.service.list_events(&admin(), &query, 100, Duration::ZERO).await.unwrap().events;
    let bodies: Vec<Value> = log.iter().map(|event| serde_json::from_str(&event.body).unwrap()).collect();
    assert_eq!(got.iter().map(|got| got.body.clone()).collect::<Vec<_>>(), bodies);
    assert!(got.len() >= 2 && got.iter().zip(&log).all(|(got, event)| got.id == event.id.to_string()));
    setup.run().await;
    assert!(setup.receiver.take().is_empty());
    // A sender that begins anew goes on where the former one was.
    setup.sender = setup.app.service.webhook_sender();
    setup.run().await;
    assert!(setup.receiver.take().is_empty());
    let state = setup.state().await;
    assert_eq!((state.last_success_at, state.failing_since), (Some(setup.app.clock.now()), None));
}

#[tokio::test]
async fn other_types_and_other_mailboxes_are_not_sent() {
    let mut setup = Setup::new().await;
    setup.app.user("bob@example.org").await;
    let (service, id) = (setup.app.service.clone(), setup.webhook.id);
    let bob = CreateWebhook { mailbox: Some("bob@example.org".parse().unwrap()), ..to(&setup.receiver.url) };
    service.create_webhook(&admin(), bob).await.unwrap();
    let types = Some(vec!["message.accepted".parse().unwrap()]);
    service.update_webhook(&admin(), id, UpdateWebhook { types, ..UpdateWebhook::default() }).await.unwrap();
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert_eq!(setup.receiver.types(), ["message.accepted"]);
}

#[tokio::test]
async fn a_failed_event_holds_back_its_message_alone() {
    let mut setup = Setup::new().await;
    setup.receiver.answer(&["500 Oops"]);
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert_eq!(setup.receiver.types(), ["message.accepted"], "the later events of the message wait");
    let waiting = setup.failed().await;
    assert!(waiting >= 2);
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    let other = setup.receiver.take();
    assert_eq!(other.len(), waiting, "another message does not wait");
    setup.app.clock.advance(Duration::from_secs(7));
    setup.run().await;
    let again = setup.receiver.take();
    assert_eq!((again.len(), setup.failed().await), (waiting, 0));
    assert_eq!(again[0].body["type"], "message.accepted");
    assert_ne!(again[0].body["data"]["message_id"], other[0].body["data"]["message_id"]);
}

#[tokio::test]
async fn an_event_is_given_up_after_eleven_attempts() {
    let mut setup = Setup::new().await;
    let types = Some(vec!["message.accepted".parse().unwrap()]);
    let change = UpdateWebhook { types, ..UpdateWebhook::default() };
    setup.app.service.update_webhook(&admin(), setup.webhook.id, change).await.unwrap();
    setup.receiver.answer(&["500 Oops"; 11]);
    setup.send(&["ann@example.org"]).await;
    for _ in 0..20 {
        setup.run().await;
        setup.app.clock.advance(Duration::from_secs(30 * 60 * 60));
        if setup.state().await.disabled_because.is_some() {
            setup.app.service.enable_webhook(&admin(), setup.webhook.id).await.unwrap();
        }
    }
    assert_eq!((setup.receiver.take().len(), setup.failed().await), (11, 1));
    let all = Replay { after: EventCursor::default(), before: None, only: ReplayedEvents::All };
    setup.app.service.replay_webhook(&admin(), setup.webhook.id, all).await.unwrap();
    setup.receiver.answer(&["500 Oops"; 11]);
    for _ in 0..20 {
        setup.run().await;
        setup.app.clock.advance(Duration::from_secs(30 * 60 * 60));
        if setup.state().await.disabled_because.is_some() {
            setup.app.service.enable_webhook(&admin(), setup.webhook.id).await.unwrap();
        }
    }
    assert_eq!((setup.receiver.take().len(), setup.failed().await), (11, 1), "the replay left no second row");
    let replay = Replay { after: EventCursor::default(), before: None, only: ReplayedEvents::Failed };
    assert_eq!(setup.app.service.replay_webhook(&admin(), setup.webhook.id, replay).await.unwrap(), Some(1));
    setup.run().await;
    assert_eq!((setup.receiver.types(), setup.failed().await), (vec!["message.accepted".to_owned()], 0));
}

#[tokio::test]
async fn five_days_of_failures_disable_a_webhook_and_nothing_is_lost() {
    let mut setup = Setup::new().await;
    setup.receiver.answer(&["500 Oops"; 2]);
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert_eq!(setup.state().await.failing_since, Some(setup.app.clock.now()));
    setup.app.clock.advance(Duration::from_secs(5 * 24 * 60 * 60));
    setup.run().await;
    assert_eq!(setup.state().await.disabled_because, Some(WebhookDisabled::Failures));
    setup.receiver.take();
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert!(setup.receiver.take().is_empty(), "a disabled webhook is silent");
    let types = vec!["webhook.disabled".parse().unwrap()];
    let query = EventQuery { after: After::Start, types, ..EventQuery::default() };
    let log = setup.app.service.list_events(&admin(), &query, 10, Duration::ZERO).await.unwrap().events;
    let body: Value = serde_json::from_str(&log[0].body).unwrap();
    assert_eq!((log.len(), &body["data"]["reason"]), (1, &"failures".into()));

    setup.app.service.enable_webhook(&admin(), setup.webhook.id).await.unwrap();
    setup.app.clock.advance(Duration::from_secs(24 * 60 * 60));
    setup.run().await;
    let arrived = setup.receiver.types();
    assert_eq!(arrived.iter().filter(|kind| *kind == "message.accepted").count(), 2, "{arrived:?}");
    assert_eq!((setup.failed().await, setup.state().await.failing_since), (0, None));
}

#[tokio::test]
async fn gone_disables_at_once() {
    let mut setup = Setup::new().await;
    setup.receiver.answer(&["410 Gone"]);
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert_eq!(setup.state().await.disabled_because, Some(WebhookDisabled::Gone));
    assert_eq!(setup.receiver.take().len(), 1);
}

#[tokio::test]
async fn a_receiver_that_is_busy_gets_a_pause_as_long_as_it_asked_for() {
    let mut setup = Setup::new().await;
    setup.receiver.answer(&["429 Busy\r\nRetry-After: 100"]);
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert_eq!(setup.receiver.take().len(), 1);
    setup.app.clock.advance(Duration::from_secs(99));
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert!(setup.receiver.take().is_empty());
    setup.app.clock.advance(Duration::from_secs(1));
    setup.run().await;
    assert!(setup.receiver.take().len() >= 4);
    assert_eq!(setup.failed().await, 0);
}

#[tokio::test]
async fn an_old_event_does_not_hold_back_the_others() {
    let mut setup = Setup::new().await;
    setup.send(&["ann@example.org"]).await;
    for answer in ["500 Oops", "500 Oops", "500 Oops", "500 Oops", "500 Oops", "503 Busy"] {
        setup.receiver.answer(&[answer]);
        setup.app.clock.advance(Duration::from_secs(3 * 60 * 60));
        setup.run().await;
    }
    let paused_until = setup.state().await.paused_until.unwrap();
    assert!(paused_until.since(setup.app.clock.now()) <= Duration::from_secs(5 * 60), "{paused_until}");
    setup.receiver.take();
    setup.app.clock.advance(Duration::from_secs(5 * 60));
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert_eq!(setup.receiver.types(), ["message.accepted", "message.delivered"], "of the second message");
}

#[tokio::test]
async fn redirects_and_broken_answers_are_failures() {
    let mut setup = Setup::new().await;
    for answer in ["302 Found\r\nLocation: http://127.0.0.1:1/", "304 Not Modified", "404 Not Found", ""] {
        setup.receiver.answer(&[answer]);
        setup.send(&["ann@example.org"]).await;
        setup.run().await;
        let state = setup.state().await;
        assert!(state.failing_since.is_some() && state.last_error.is_some() && state.enabled, "{answer}");
        setup.app.clock.advance(Duration::from_secs(60));
        setup.run().await;
        assert_eq!((setup.failed().await, setup.state().await.last_error), (0, None), "{answer}");
    }
}

#[tokio::test]
async fn during_a_rotation_both_keys_sign() {
    let mut setup = Setup::new().await;
    let id = setup.webhook.id;
    let (_, secret) = setup.app.service.rotate_webhook(&admin(), id).await.unwrap();
    assert!(secret.unwrap().expose().starts_with("whsec_"));
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert!(setup.receiver.take().iter().all(|got| got.signatures.split(' ').count() == 2));
    setup.app.clock.advance(Duration::from_secs(24 * 60 * 60));
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert!(setup.receiver.take().iter().all(|got| got.signatures.split(' ').count() == 1));
}

#[tokio::test]
async fn a_test_message_goes_out_once_even_if_the_webhook_is_disabled() {
    let setup = Setup::new().await;
    let (service, id) = (&setup.app.service, setup.webhook.id);
    let off = UpdateWebhook { enabled: Some(false), ..UpdateWebhook::default() };
    service.update_webhook(&admin(), id, off).await.unwrap();
    setup.receiver.answer(&["500 Oops"]);
    let result = service.test_webhook(&admin(), id).await.unwrap();
    assert_eq!((result.delivered, result.status), (false, Some(500)));
    assert!(service.test_webhook(&admin(), id).await.unwrap().delivered);
    assert_eq!(setup.receiver.types(), ["webhook.test", "webhook.test"]);
}

#[tokio::test]
async fn everything_can_be_sent_again() {
    let mut setup = Setup::new().await;
    // The first event fails, and the others wait behind it.
    setup.receiver.answer(&["500 Oops"]);
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert!(setup.failed().await >= 2);
    let replay = Replay { after: EventCursor::default(), before: None, only: ReplayedEvents::All };
    setup.app.clock.advance(Duration::from_secs(7));
    setup.app.service.replay_webhook(&admin(), setup.webhook.id, replay).await.unwrap();
    setup.receiver.take();
    setup.run().await;
    let first = setup.receiver.take();
    assert_eq!((first.len() >= 2, setup.failed().await), (true, 0), "each event once, and no row is left");
    setup.app.service.replay_webhook(&admin(), setup.webhook.id, replay).await.unwrap();
    setup.run().await;
    let ids = |got: &[Got]| got.iter().map(|got| got.id.clone()).collect::<Vec<_>>();
    assert_eq!((ids(&setup.receiver.take()), setup.failed().await), (ids(&first), 0));
}

/// A receiver with TLS that answers each message with its own body, or with nothing. Returns its port, its certificate,
/// and the number of its answers.
async fn receiver_with_tls(echoes: bool) -> (u16, Vec<u8>, Arc<AtomicUsize>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["hook.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], private).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answered = Arc::new(AtomicUsize::new(0));
    let count = answered.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut read = Vec::new();
            while !read.ends_with(b"}}") {
                stream.read_buf(&mut read).await.unwrap();
            }
            let text = String::from_utf8(read).unwrap();
            let body = if echoes { text.split_once("\r\n\r\n").unwrap().1 } else { "OK" };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (port, certificate.pem().into_bytes(), answered)
}

/// A server that trusts this authority, and allows users to have receivers on this machine.
async fn app_with_network(authority: &[u8]) -> TestApp {
    let app = TestApp::start_with(|settings| {
        settings.service.webhooks.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
        settings.service.webhooks.trust = Trust::Authorities(authority.to_vec());
    })
    .await;
    app.dns.set_addresses("hook.example", &["127.0.0.1"]);
    app
}

#[tokio::test]
async fn a_users_receiver_must_echo_the_challenge() {
    for echoes in [false, true] {
        let (port, authority, _) = receiver_with_tls(echoes).await;
        let app = app_with_network(&authority).await;
        let token = app.user("ann@example.org").await;
        let ann = caller(&app, &token).await;
        let created = app.service.create_webhook(&ann, to(&format!("https://hook.example:{port}/"))).await;
        if !echoes {
            assert!(matches!(created, Err(WebhookError::Invalid(_))), "{created:?}");
            continue;
        }
        let (webhook, _) = created.unwrap();
        let own = ann.grants.mailbox();
        assert_eq!((webhook.author.user(), webhook.mailbox.as_ref()), (own, own));
        // Another receiver must echo too; nothing listens here.
        let elsewhere = UpdateWebhook { url: Some("https://hook.example:1/".to_owned()), ..UpdateWebhook::default() };
        let changed = app.service.update_webhook(&ann, webhook.id, elsewhere).await;
        assert!(matches!(changed, Err(WebhookError::Invalid(_))), "{changed:?}");
        assert_eq!(app.service.list_webhooks(&ann, Page::new(10, 0)).await.unwrap().items, [webhook]);
    }
}

#[tokio::test]
async fn a_user_can_give_the_receiver_the_key_first() {
    let (port, authority, answered) = receiver_with_tls(true).await;
    let app = app_with_network(&authority).await;
    let ann = caller(&app, &app.user("ann@example.org").await).await;
    let count = || answered.swap(0, Ordering::SeqCst);
    let later =
        CreateWebhook { signing: WebhookSigning::V1a, enabled: false, ..to(&format!("https://hook.example:{port}/")) };
    let (webhook, _) = app.service.create_webhook(&ann, later.clone()).await.unwrap();
    assert!(public_key(&webhook).is_some_and(|key| key.starts_with("whpk_")));
    assert_eq!((count(), webhook.confirmed), (0, false), "the receiver has the key before it gets anything");
    assert!(app.service.enable_webhook(&ann, webhook.id).await.unwrap().confirmed);
    assert_eq!(count(), 1, "the challenge");
    app.service.enable_webhook(&ann, webhook.id).await.unwrap();
    assert_eq!(count(), 0, "one is enough");

    // The test of a receiver that is not confirmed is the challenge too.
    let (webhook, _) = app.service.create_webhook(&ann, later).await.unwrap();
    assert!(app.service.test_webhook(&ann, webhook.id).await.unwrap().delivered);
    assert!(app.service.get_webhook(&ann, webhook.id).await.unwrap().confirmed);

    // Without a public address, there is not even a webhook.
    let inside = CreateWebhook { enabled: false, ..to("https://10.0.0.1/") };
    assert!(matches!(app.service.create_webhook(&ann, inside).await, Err(WebhookError::Invalid(_))));
}

#[tokio::test]
async fn a_receiver_without_an_echo_is_never_enabled() {
    let (port, authority, answered) = receiver_with_tls(false).await;
    let app = app_with_network(&authority).await;
    let ann = caller(&app, &app.user("ann@example.org").await).await;
    let later = CreateWebhook { enabled: false, ..to(&format!("https://hook.example:{port}/")) };
    let (webhook, _) = app.service.create_webhook(&ann, later).await.unwrap();
    let refused = app.service.enable_webhook(&ann, webhook.id).await;
    assert!(matches!(refused, Err(WebhookError::Invalid(_))), "{refused:?}");
    // An admin cannot decide for the receiver either.
    let refused = app.service.enable_webhook(&admin(), webhook.id).await;
    assert!(matches!(refused, Err(WebhookError::Invalid(_))), "{refused:?}");
    let tested = app.service.test_webhook(&ann, webhook.id).await.unwrap();
    assert_eq!((tested.delivered, tested.status, tested.error, tested.answer), (false, None, None, None));
    let tested = app.service.test_webhook(&admin(), webhook.id).await.unwrap();
    assert_eq!((tested.delivered, tested.status, tested.answer.as_deref()), (false, Some(200), Some("OK")));
    assert_eq!(answered.load(Ordering::SeqCst), 4, "four challenges");
    let state = app.service.get_webhook(&ann, webhook.id).await.unwrap();
    assert!(!state.enabled && !state.confirmed);
}

#[tokio::test]
async fn failed_checks_of_a_users_receiver_look_alike() {
    const LEAST: Duration = Duration::from_millis(100);
    let (port, authority, _) = receiver_with_tls(false).await;
    let app = TestApp::start_with(|settings| {
        settings.service.webhooks.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
        settings.service.webhooks.trust = Trust::Authorities(authority);
        settings.service.webhooks.failed_check = LEAST;
    })
    .await;
    for name in ["hook.example", "other.example"] {
        app.dns.set_addresses(name, &["127.0.0.1"]);
    }
    let ann = caller(&app, &app.user("ann@example.org").await).await;
    let later = CreateWebhook { enabled: false, ..to("https://hook.example:1/") };
    let (webhook, _) = app.service.create_webhook(&ann, later).await.unwrap();
    let mut seen = Vec::new();
    // Another answer, nothing that listens, a certificate for another name, no public address, no such host.
    for url in [
        format!("https://hook.example:{port}/"),
        "https://hook.example:1/".to_owned(),
        format!("https://other.example:{port}/"),
        "https://10.0.0.1/".to_owned(),
        "https://unknown.example/".to_owned(),
    ] {
        let begun = Instant::now();
        let change = UpdateWebhook { url: Some(url.clone()), enabled: Some(true), ..UpdateWebhook::default() };
        let refused = app.service.update_webhook(&ann, webhook.id, change).await.unwrap_err().to_string();
        let created = app.service.create_webhook(&ann, to(&url)).await.unwrap_err().to_string();
        assert!(begun.elapsed() >= 2 * LEAST, "{url}: {:?}", begun.elapsed());
        seen.push((refused, created));
    }
    assert!(seen.iter().all(|texts| *texts == seen[0]), "{seen:?}");
    let begun = Instant::now();
    let tested = app.service.test_webhook(&ann, webhook.id).await.unwrap();
    assert_eq!((tested.delivered, tested.status, tested.error, tested.answer), (false, None, None, None));
    assert!(begun.elapsed() >= LEAST);
}

#[tokio::test]
async fn an_event_starts_rounds_only_where_it_is_wanted() {
    let mut setup = Setup::new().await;
    setup.app.user("bob@example.org").await;
    let service = setup.app.service.clone();
    let other_types = |types: &str| CreateWebhook { types: vec![types.parse().unwrap()], ..to(&setup.receiver.url) };
    for _ in 0..10 {
        let of_bob = CreateWebhook { mailbox: Some("bob@example.org".parse().unwrap()), ..to(&setup.receiver.url) };
        for new in [of_bob, other_types("domain.*"), other_types("message.complained")] {
            service.create_webhook(&admin(), new).await.unwrap();
        }
    }
    setup.run().await;
    setup.send(&["ann@example.org"]).await;
    let step = setup.sender.send_once().await.unwrap();
    assert_eq!(step, WebhookStep { rounds: 1, more: false }, "of 31 webhooks");
    assert!(setup.receiver.take().len() >= 2);
    assert_eq!(setup.sender.send_once().await.unwrap().rounds, 0, "nothing is new");
    // A start reads the log once for all webhooks, from the oldest of their positions.
    setup.sender = service.webhook_sender();
    assert_eq!(setup.sender.send_once().await.unwrap().rounds, 0);
    setup.app.domain("new.example").await;
    assert_eq!(setup.sender.send_once().await.unwrap().rounds, 10);
    // A change of one webhook starts no round of the others.
    let off = UpdateWebhook { description: Some("Shop".to_owned()), ..UpdateWebhook::default() };
    service.update_webhook(&admin(), setup.webhook.id, off).await.unwrap();
    assert_eq!(setup.sender.send_once().await.unwrap().rounds, 1);
}

#[tokio::test]
async fn a_failed_event_is_tried_again_after_a_restart() {
    let mut setup = Setup::new().await;
    setup.receiver.answer(&["500 Oops"]);
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    setup.receiver.take();
    setup.sender = setup.app.service.webhook_sender();
    setup.run().await;
    assert!(setup.receiver.take().is_empty(), "it is not due");
    setup.app.clock.advance(Duration::from_secs(7));
    setup.run().await;
    assert_eq!((setup.receiver.take().len() >= 2, setup.failed().await), (true, 0));
}

/// Number of events after which positions move past events that no webhook wants.
const UNWANTED: u64 = 1000;

async fn record_unwanted(app: &TestApp) {
    let at = app.clock.now();
    let unwanted = |number: u64| {
        let id = EventId::of_fact(at, &[&number.to_be_bytes()]);
        webhook_disabled(WebhookId(99), "https://example.org/", None, WebhookDisabled::Gone, id)
    };
    let events: Vec<_> = (0..UNWANTED).map(unwanted).collect();
    let log = app.store.events();
    futures_util::future::try_join_all(events.iter().map(|event| log.record(event))).await.unwrap();
}

#[tokio::test]
async fn positions_pass_events_that_are_not_wanted() {
    let mut setup = Setup::new().await;
    setup.run().await;
    record_unwanted(&setup.app).await;
    assert_eq!(setup.sender.send_once().await.unwrap().rounds, 0);
    assert_eq!(setup.state().await.cursor, setup.webhook.cursor, "positions are stored rarely");
    setup.app.clock.advance(Duration::from_secs(60));
    assert_eq!(setup.sender.send_once().await.unwrap().rounds, 0);
    assert!(setup.state().await.cursor.number() >= setup.webhook.cursor.number() + UNWANTED);
    // It goes on from there.
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert!(setup.receiver.take().len() >= 2);
}
