//! Events of mail that mail programs submit with a login.

use std::collections::HashSet;
use std::time::Duration;

use mailapi_backend::QueueChange;
use mailapi_model::{Page, Permission, QueueId};
use mailapi_service::Caller;
use mailapi_service::events::{After, EventQuery, EventsError};
use mailapi_service::mail::SentQuery;
use mailapi_testkit::TestApp;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{caller, message};

const ANN: &str = "ann@example.org";
const TEXT: &str = "From: ann@example.org\r\nSubject: Hello\r\n\r\nA short text.\r\n";

fn about(mailbox: &str) -> EventQuery {
    EventQuery { after: After::Start, mailbox: mailbox.parse().ok(), ..EventQuery::default() }
}

/// Returns the events of sent messages that match, as type and data.
async fn listed(app: &TestApp, caller: &Caller, query: &EventQuery) -> Vec<(String, Value)> {
    while app.service.read_events_once().await.unwrap() {}
    let page = app.service.list_events(caller, query, 1000, Duration::ZERO).await.unwrap();
    let ids: HashSet<_> = page.events.iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), page.events.len(), "each id occurs once");
    let events = page.events.iter().map(|event| {
        let mut body: Value = serde_json::from_str(&event.body).unwrap();
        let data = body["data"].take();
        assert_eq!(event.message_id.is_none(), data["message_id"].is_null(), "{data}");
        (event.event_type.as_str().to_owned(), data)
    });
    events.filter(|(name, _)| name.starts_with("message.") && name != "message.received").collect()
}

fn types(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

/// A server with the mailboxes of ann and bob; ann and an admin.
async fn app() -> (TestApp, Caller, Caller) {
    let app = TestApp::start().await;
    let ann = app.user(ANN).await;
    app.mailbox("bob@example.org", None).await;
    let (ann, admin) = (caller(&app, &ann).await, caller(&app, app.admin()).await);
    (app, ann, admin)
}

async fn submit(app: &TestApp, to: &[&str]) {
    assert!(app.mail_server.submit((ANN, ANN), to, TEXT).await);
}

#[tokio::test]
async fn readers_learn_of_accepted_mail_before_an_attempt() {
    const LONG: Duration = Duration::from_secs(30);
    const SHORT: Duration = Duration::from_millis(20);
    let (app, ann, _) = app().await;
    let feed = app.mail_server.backend().delivery_feed;
    app.settle().await;
    while timeout(SHORT, feed.changed()).await.is_ok() {}
    while timeout(SHORT, app.service.events_written()).await.is_ok() {}

    submit(&app, &["zoe@far.example"]).await;
    // As the background loops do; no delivery agent runs.
    timeout(LONG, feed.changed()).await.expect("the feed signals a change");
    app.service.follow_once().await.unwrap();
    timeout(LONG, app.service.events_written()).await.expect("readers of events are woken");
    assert_eq!(types(&listed(&app, &ann, &about(ANN)).await), ["message.accepted"]);
}

#[tokio::test]
async fn others_see_no_events_of_a_mail_program() {
    let (app, ..) = app().await;
    let (bob, eve) = (app.user("bea@example.org").await, app.user("eve@example.net").await);
    submit(&app, &["bob@example.org"]).await;
    app.settle().await;
    for other in [bob, eve] {
        let other = caller(&app, &other).await;
        let everything = EventQuery { after: After::Start, ..EventQuery::default() };
        assert_eq!(listed(&app, &other, &everything).await, []);
        let denied = app.service.list_events(&other, &about(ANN), 10, Duration::ZERO).await;
        assert!(matches!(denied, Err(EventsError::Denied(_))));
    }
}

#[tokio::test]
async fn forged_senders_notices_and_the_api_have_no_such_events() {
    let (app, _, admin) = app().await;
    app.deliver(ANN, "bob@example.org", TEXT).await;
    app.settle().await;
    assert_eq!(listed(&app, &admin, &about(ANN)).await, [], "a stranger used ann's address");

    app.mail_server.sink.refuse("gone@far.example", &["550 5.1.1 No such user"]);
    submit(&app, &["gone@far.example"]).await;
    app.settle().await;
    app.settle().await;
    let events = listed(&app, &admin, &about(ANN)).await;
    assert_eq!(types(&events), ["message.accepted", "message.bounced"], "the notice to ann has none");

    app.service.send(&admin, message(ANN, &["bob@example.org"])).await.unwrap();
    app.settle().await;
    assert_eq!(listed(&app, &admin, &about(ANN)).await, events, "an admin's API token has no mailbox");
}

#[tokio::test]
async fn mail_of_a_mail_program_has_events_without_a_message_id() {
    let (app, ann, _) = app().await;
    let sink = &app.mail_server.sink;
    sink.refuse("gone@far.example", &["550 5.1.1 No such user"]);
    sink.refuse("late@far.example", &["450 4.2.0 Come again later", "450 4.2.0 Come again later"]);
    submit(&app, &["Bob@example.org", "zoe@far.example", "gone@far.example", "late@far.example"]).await;
    app.settle().await;
    for _ in 0..2 {
        app.clock.advance(Duration::from_secs(24 * 60 * 60));
        app.settle().await;
    }
    let events = listed(&app, &ann, &about(ANN)).await;
    let (name, accepted) = &events[0];
    assert_eq!(name, "message.accepted");
    assert_eq!((&accepted["domain"], &accepted["from"]), (&json!("example.org"), &json!(ANN)));
    let named = ["bob@example.org", "zoe@far.example", "gone@far.example", "late@far.example"];
    let expected: Vec<_> = named.iter().map(|email| json!({ "email": email, "type": null })).collect();
    assert_eq!(accepted["recipients"], json!(expected));
    assert!(accepted["size"].as_u64() >= Some(TEXT.len() as u64));
    assert!(events.iter().all(|(_, data)| data["message_id"].is_null() && data["mailbox"] == ANN));
    assert!(events.iter().all(|(_, data)| data["queue_id"] == accepted["queue_id"]), "{events:?}");

    let of = |recipient: &str| -> Vec<&(String, Value)> {
        events.iter().filter(|(_, data)| data["recipient"]["email"] == recipient).collect()
    };
    let [(name, bob)] = of(named[0])[..] else { panic!("{events:?}") };
    assert_eq!((name.as_str(), &bob["delivered_to"]), ("message.delivered", &json!("mailbox")));
    let [(name, zoe)] = of(named[1])[..] else { panic!("{events:?}") };
    assert_eq!((name.as_str(), &zoe["delivered_to"]), ("message.delivered", &json!("next_hop")));
    let [(name, gone)] = of(named[2])[..] else { panic!("{events:?}") };
    assert_eq!((name.as_str(), &gone["bounce"]), ("message.bounced", &json!({"class": "permanent", "via": "smtp"})));
    let late = of(named[3]);
    let attempts: Vec<_> = late.iter().map(|(name, data)| (name.as_str(), data["attempt"].as_u64())).collect();
    let deferred = |number| ("message.deferred", Some(number));
    assert_eq!(attempts, [deferred(1), deferred(2), ("message.delivered", None)]);
}

#[tokio::test]
async fn the_api_has_no_status_of_a_mail_programs_message() {
    let (app, _, admin) = app().await;
    submit(&app, &["bob@example.org"]).await;
    app.settle().await;
    assert_eq!(listed(&app, &admin, &about(ANN)).await.len(), 2);
    let sent = app.service.list_sent(&admin, SentQuery::default(), Page::new(10, 0)).await.unwrap();
    assert_eq!(sent.total, 0);
    let log = app.service.delivery_log(&admin, &Default::default(), Page::new(10, 0)).await.unwrap();
    assert_eq!((log.total, log.items[0].event.message_id), (1, None));
}

#[tokio::test]
async fn the_domain_is_that_of_the_author() {
    let (app, ..) = app().await;
    app.domain("team.example").await;
    let eve = app.user("eve@example.net").await;
    assert!(app.mail_server.submit((ANN, "info@team.example"), &["bob@example.org"], TEXT).await);
    app.settle().await;
    let holder = "eve@example.net".parse().unwrap();
    for (domain, expected) in [("example.org", 0), ("team.example", 2)] {
        let domain = domain.parse().unwrap();
        app.service.grant_permission(&Caller::operator(), &holder, Permission::ViewStats, &domain).await.unwrap();
        let eve = caller(&app, &eve).await;
        let of_domain = EventQuery { after: After::Start, domain: Some(domain), ..EventQuery::default() };
        assert_eq!(listed(&app, &eve, &of_domain).await.len(), expected);
    }
}

#[tokio::test]
async fn a_later_owner_of_the_mailbox_sees_no_events() {
    let (app, _, admin) = app().await;
    submit(&app, &["zoe@far.example"]).await;
    app.service.delete_user(&Caller::operator(), &ANN.parse().unwrap()).await.unwrap();
    app.clock.advance(Duration::from_secs(60));
    let second = app.user(ANN).await;
    // The report arrives when the address has its second owner.
    app.settle().await;
    let second = caller(&app, &second).await;
    assert_eq!(listed(&app, &second, &about(ANN)).await, []);
    let events = listed(&app, &admin, &about(ANN)).await;
    assert_eq!(types(&events), ["message.accepted", "message.delivered"]);
}

#[tokio::test]
async fn a_cancelled_message_bounces() {
    let (app, _, admin) = app().await;
    submit(&app, &["zoe@far.example"]).await;
    while app.service.follow_once().await.unwrap().1 {}
    let accepted = listed(&app, &admin, &about(ANN)).await.remove(0).1;
    let queue_id = QueueId(accepted["queue_id"].as_str().unwrap().to_owned());
    app.service.change_queued_message(&admin, &queue_id, QueueChange::Cancel).await.unwrap();
    app.settle().await;
    let events = listed(&app, &admin, &about(ANN)).await;
    assert_eq!(types(&events), ["message.accepted", "message.bounced"]);
    assert!(app.mail_server.sink.received().is_empty());
}

#[tokio::test]
async fn two_readers_of_one_feed_store_each_event_once() {
    const MANY: usize = 20;
    let (app, _, admin) = app().await;
    for _ in 0..MANY {
        submit(&app, &["bob@example.org"]).await;
    }
    let beside = app.beside(app.service.settings().clone()).await;
    loop {
        let (one, other) = tokio::join!(app.service.follow_once(), beside.follow_once());
        if !one.unwrap().1 && !other.unwrap().1 {
            break;
        }
    }
    let events = listed(&app, &admin, &about(ANN)).await;
    assert_eq!(events.len(), 2 * MANY);
    let queue_ids: HashSet<_> = events.iter().map(|(_, data)| data["queue_id"].as_str().unwrap()).collect();
    assert_eq!(queue_ids.len(), MANY);
    for queue_id in queue_ids {
        let of_message: Vec<_> = events.iter().filter(|(_, data)| data["queue_id"] == queue_id).collect();
        let names: Vec<_> = of_message.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["message.accepted", "message.delivered"]);
    }
}
