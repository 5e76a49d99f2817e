//! Deliveries that a mail server's log reports, and their events.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Backend, DeliveryFeed, FeedBatch, FeedError};
use mailapi_model::{
    Authentication, AuthenticationResult, CheckedDomain, Clock, FeedCursor, FolderName, QueueId, ReceivedMail,
};
use mailapi_service::events::{After, EventQuery};
use mailapi_service::mail::ArrivedMail;
use mailapi_service::{Caller, Parts, Service, Settings};
use mailapi_testkit::TestApp;
use serde_json::{Value, json};

use crate::parts;

/// A log that reports deliveries to mailboxes.
#[derive(Default)]
struct Log(Mutex<Vec<ReceivedMail>>);

#[async_trait]
impl DeliveryFeed for Log {
    fn name(&self) -> &str {
        "log"
    }

    async fn read_after(&self, cursor: &FeedCursor, _: usize) -> Result<FeedBatch, FeedError> {
        let reported = self.0.lock().unwrap();
        let read: usize = cursor.0.parse().unwrap_or_default();
        let cursor = FeedCursor(reported.len().to_string());
        Ok(FeedBatch { received: reported[read..].to_vec(), cursor, lines_read: 1, ..FeedBatch::default() })
    }

    async fn forget_until(&self, _: &FeedCursor) -> Result<(), FeedError> {
        Ok(())
    }

    async fn changed(&self) {}
}

/// Returns the operations of a process that reads this log.
fn service(app: &TestApp, log: &Arc<Log>) -> Service {
    let backend = Backend { delivery_feed: log.clone(), ..app.mail_server.backend() };
    Service::new(Parts { backend, ..parts(app) })
}

/// Returns the data of the events of this queue id.
async fn events_of(service: &Service, queue_id: &str) -> Vec<Value> {
    while service.read_events_once().await.unwrap() {}
    let types = vec!["message.received".parse().unwrap()];
    let query = EventQuery { after: After::Start, types, ..EventQuery::default() };
    let page = service.list_events(&Caller::operator(), &query, 100, Duration::ZERO).await.unwrap();
    let bodies = page.events.iter().map(|event| serde_json::from_str::<Value>(&event.body).unwrap());
    bodies.map(|mut body| body["data"].take()).filter(|data| data["queue_id"] == queue_id).collect()
}

async fn complete(service: &Service) {
    while service.complete_received_once().await.unwrap() {}
}

#[tokio::test]
async fn mail_that_is_not_certainly_found_has_null_members() {
    let app = TestApp::start().await;
    app.user("ann@example.org").await;
    let message = "From: eve@example.net\nMessage-ID: <1@example.net>\nReceived: by mx id OTHER; Fri\n\nHello\n";
    app.deliver("eve@example.net", "ann@example.org", message).await;
    app.settle().await;
    let log = Arc::new(Log::default());
    let service = service(&app, &log);
    let report = |queue_id: &str, header_id: Option<&str>| ReceivedMail {
        at: app.clock.now(),
        mailbox: "ann+lists@example.org".parse().unwrap(),
        recipient: Some("lists@example.org".parse().unwrap()),
        queue_id: QueueId(queue_id.to_owned()),
        header_id: header_id.map(str::to_owned),
        place: None,
        authentication: None,
    };
    let elsewhere = ReceivedMail { mailbox: "zoe@example.org".parse().unwrap(), ..report("ZOE", None) };
    let gone = ReceivedMail { place: Some((FolderName::inbox(), 4711)), ..report("GONE", None) };
    *log.0.lock().unwrap() = vec![
        report("NONE", None),
        report("EMPTY", Some("<>")),
        report("UNKNOWN", Some("<2@example.net>")),
        report("SAME", Some("<1@example.net>")),
        report("OTHER", Some("1@example.net")),
        ReceivedMail { at: app.clock.now().minus(Duration::from_hours(25)), ..report("OLD", Some("<1@example.net>")) },
        gone,
        elsewhere,
    ];
    service.follow_once().await.unwrap();
    complete(&service).await;
    for queue_id in ["NONE", "EMPTY", "UNKNOWN", "SAME", "OLD", "GONE"] {
        let expected = json!({
            "mailbox": "ann@example.org", "domain": "example.org", "recipient": { "email": "lists@example.org" },
            "queue_id": queue_id, "folder": null, "uid": null, "from": null, "from_name": null, "subject": null, "snippet": null, "size": null,
            "has_attachments": null, "authentication": null, "security": null,
        });
        assert_eq!(events_of(&service, queue_id).await, [expected]);
    }
    let found = events_of(&service, "OTHER").await;
    assert_eq!((found.len(), &found[0]["snippet"]), (1, &json!("Hello")));
    assert!(events_of(&service, "ZOE").await.is_empty(), "it is no mailbox here");
}

#[tokio::test]
async fn a_message_that_is_found_is_analyzed_for_its_event() {
    let app = TestApp::start().await;
    app.user("ann@example.org").await;
    let message = "From: ann@examp1e.org\nMessage-ID: <1@x.example>\nReceived: by mx id Q1; Fri\n\nHello\n";
    app.deliver("eve@example.net", "ann@example.org", message).await;
    app.settle().await;
    let log = Arc::new(Log::default());
    let report = |queue_id: &str, place| ReceivedMail {
        at: app.clock.now(),
        mailbox: "ann@example.org".parse().unwrap(),
        recipient: None,
        queue_id: QueueId(queue_id.to_owned()),
        header_id: Some("<1@x.example>".to_owned()),
        place,
        authentication: None,
    };
    *log.0.lock().unwrap() = vec![report("Q1", None), report("Q2", Some((FolderName::inbox(), 1)))];
    let backend = Backend { delivery_feed: log.clone(), ..app.mail_server.backend() };
    let settings = Settings { security_analysis: true, ..Settings::default() };
    let service = Service::new(Parts { backend, settings, ..parts(&app) });
    service.follow_once().await.unwrap();
    complete(&service).await;
    let found = events_of(&service, "Q1").await;
    assert_eq!(found[0]["security"], json!({ "verdict": "dangerous", "signs": ["lookalike_sender"] }), "{found:?}");
    // The built-in server has not checked it, so what the header says may be forged.
    let unchecked = events_of(&service, "Q2").await;
    assert_eq!((&unchecked[0]["uid"], &unchecked[0]["security"]), (&json!(1), &Value::Null), "{unchecked:?}");
}

#[tokio::test]
async fn a_crash_between_report_and_event_loses_and_repeats_nothing() {
    let app = TestApp::start().await;
    app.user("ann@example.org").await;
    let log = Arc::new(Log::default());
    let (at, mailbox) = (app.clock.now(), "ann@example.org".parse().unwrap());
    let queue_id = QueueId("Q1".to_owned());
    log.0.lock().unwrap().push(ReceivedMail {
        at,
        mailbox,
        recipient: None,
        queue_id,
        header_id: None,
        place: None,
        authentication: None,
    });
    let first = service(&app, &log);
    first.follow_once().await.unwrap();
    assert!(events_of(&first, "Q1").await.is_empty());
    drop(first);

    let (second, third) = (service(&app, &log), service(&app, &log));
    second.follow_once().await.unwrap();
    let (one, other) = tokio::join!(second.complete_received_once(), third.complete_received_once());
    assert_eq!((one.unwrap(), other.unwrap()), (false, false));
    complete(&second).await;
    assert_eq!(events_of(&second, "Q1").await.len(), 1);
}

#[tokio::test]
async fn mail_that_arrived_unchecked_is_counted() {
    let app = TestApp::start().await;
    app.user("ann@example.org").await;
    let log = Arc::new(Log::default());
    let service = service(&app, &log);
    assert_eq!(service.arrived_mail().await.unwrap(), ArrivedMail::default());
    let none = || CheckedDomain { result: AuthenticationResult::None, domain: None };
    let authentication =
        Authentication { spf: none(), dkim: Vec::new(), dmarc: none(), arc: AuthenticationResult::None };
    // Mail of other servers, and of a user.
    for (number, author) in [(1, "eve@example.net"), (2, "zoe@far.example"), (3, "bob@example.org")] {
        let message =
            format!("From: {author}\nMessage-ID: <{number}@x.example>\nReceived: by mx id Q{number}; Fri\n\nHi\n");
        app.deliver(author, "ann@example.org", &message).await;
    }
    app.settle().await;
    // A report of the first one says that it was checked.
    log.0.lock().unwrap().push(ReceivedMail {
        at: app.clock.now(),
        mailbox: "ann@example.org".parse().unwrap(),
        recipient: None,
        queue_id: QueueId("Q1".to_owned()),
        header_id: Some("<1@x.example>".to_owned()),
        place: None,
        authentication: Some(authentication),
    });
    service.follow_once().await.unwrap();
    complete(&service).await;
    while service.read_events_once().await.unwrap() {}
    assert_eq!(service.arrived_mail().await.unwrap(), ArrivedMail { checked: 1, unchecked: 2 });
}
