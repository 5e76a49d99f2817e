//! The log of events: who sees what, waiting, streams, and the end of old events.

use std::time::Duration;

use mailapi_model::AuthenticationResult::{Fail, None as Nothing, Pass, Softfail};
use mailapi_model::{Authentication, CheckedDomain, CheckedSignature, DomainName, MessageId, Permission, Secret};
use mailapi_service::Caller;
use mailapi_service::events::{After, EventCursor, EventError, EventPage, EventQuery, EventsError};
use mailapi_service::mail::StatusError;
use mailapi_testkit::TestApp;
use tokio::time::timeout;

use crate::{HERE, caller, message};

const AT_ONCE: Duration = Duration::ZERO;
/// A test that waits this long has failed.
const LONG: Duration = Duration::from_secs(30);

fn from_start() -> EventQuery {
    EventQuery { after: After::Start, ..EventQuery::default() }
}

fn types(page: &EventPage) -> Vec<&'static str> {
    page.events.iter().map(|event| event.event_type.as_str()).collect()
}

/// Makes new events visible, as the background loop does.
async fn read_events(app: &TestApp) {
    while app.service.read_events_once().await.unwrap() {}
}

/// Lists the events of sent messages that the caller sees.
async fn seen(app: &TestApp, caller: &Caller) -> EventPage {
    read_events(app).await;
    let query = EventQuery { types: vec!["message.*".parse().unwrap()], ..from_start() };
    app.service.list_events(caller, &query, 100, AT_ONCE).await.unwrap()
}

async fn send(app: &TestApp, caller: &Caller, from: &str, to: &[&str]) -> MessageId {
    app.service.send(caller, message(from, to)).await.unwrap().message_id
}

#[tokio::test]
async fn events_of_others_are_not_listed() {
    let app = TestApp::start().await;
    let (ann, bob) = (app.user("ann@example.org").await, app.user("bob@example.org").await);
    let eve = app.user("eve@example.net").await;
    let (ann, bob, eve) = (caller(&app, &ann).await, caller(&app, &bob).await, caller(&app, &eve).await);
    let id = send(&app, &ann, "ann@example.org", &["bob@example.org"]).await;
    app.settle().await;
    let own = seen(&app, &ann).await;
    assert_eq!(types(&own), ["message.accepted", "message.delivered"]);

    for (other, expected) in [(&bob, vec!["message.received"]), (&eve, vec![])] {
        assert_eq!(types(&seen(&app, other).await), expected);
        let found = app.service.event(other, own.events[0].id).await;
        assert!(matches!(found, Err(EventError::NotFound)));
        let timeline = app.service.timeline(other, id, EventCursor::default(), 100).await;
        assert!(matches!(timeline, Err(StatusError::NotFound)));
    }
    let of_mailbox = EventQuery { mailbox: Some("ann@example.org".parse().unwrap()), ..from_start() };
    let of_domain = EventQuery { domain: Some("example.org".parse().unwrap()), ..from_start() };
    for query in [&of_mailbox, &of_domain] {
        let refused = app.service.list_events(&eve, query, 100, AT_ONCE).await;
        assert!(matches!(refused, Err(EventsError::Denied(_))));
        assert!(matches!(app.service.event_stream(&eve, query.clone()).await, Err(EventsError::Denied(_))));
    }
    let of_mailbox = app.service.list_events(&ann, &of_mailbox, 100, AT_ONCE).await.unwrap();
    assert_eq!(of_mailbox.events, own.events);
    assert_eq!(app.service.event(&ann, own.events[0].id).await.unwrap(), own.events[0]);
}

#[tokio::test]
async fn a_permission_for_statistics_shows_the_domains_messages() {
    let app = TestApp::start().await;
    let (ann, eve) = (app.user("ann@example.org").await, app.user("eve@example.net").await);
    let ann = caller(&app, &ann).await;
    let id = send(&app, &ann, "ann@example.org", &["eve@example.net"]).await;
    let domain: DomainName = "example.org".parse().unwrap();
    let (operator, holder) = (Caller::operator(), "eve@example.net".parse().unwrap());
    for (permission, expected) in [(Permission::ViewMailbox, 0), (Permission::ViewStats, 1)] {
        app.service.grant_permission(&operator, &holder, permission, &domain).await.unwrap();
        let eve = caller(&app, &eve).await;
        // Eve's mailbox receives the message.
        let of_domain = EventQuery { domain: Some(domain.clone()), ..from_start() };
        read_events(&app).await;
        let listed = app.service.list_events(&eve, &of_domain, 100, AT_ONCE).await.unwrap();
        assert_eq!(listed.events.len(), expected, "{permission}");
    }
    let eve = caller(&app, &eve).await;
    let timeline = app.service.timeline(&eve, id, EventCursor::default(), 100).await.unwrap();
    assert_eq!(types(&timeline), ["message.accepted"]);
}

#[tokio::test]
async fn a_later_owner_of_an_address_sees_no_earlier_events() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let first = caller(&app, &ann).await;
    send(&app, &first, "ann@example.org", &["bob@example.org"]).await;
    app.service.delete_user(&Caller::operator(), &"ann@example.org".parse().unwrap()).await.unwrap();
    app.clock.advance(Duration::from_secs(60));
    let second = app.user("ann@example.org").await;
    // The report arrives when the address has its second owner.
    app.settle().await;
    let second = caller(&app, &second).await;
    assert_eq!(types(&seen(&app, &second).await), [""; 0]);
    let admin = caller(&app, app.admin()).await;
    let query = EventQuery { mailbox: Some("ann@example.org".parse().unwrap()), ..from_start() };
    let of_ann = app.service.list_events(&admin, &query, 100, AT_ONCE).await.unwrap();
    let of_message: Vec<_> = types(&of_ann).into_iter().filter(|name| name.starts_with("message.")).collect();
    assert_eq!(of_message, ["message.accepted", "message.delivered"]);
}

#[tokio::test]
async fn a_timeline_lists_one_message_in_order() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let ann = caller(&app, &ann).await;
    let missing = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap();
    let timeline = app.service.timeline(&ann, missing, EventCursor::default(), 100).await;
    assert!(matches!(timeline, Err(StatusError::NotFound)));

    let to = ["bob@example.org", "nobody@example.org"];
    let one = send(&app, &ann, "ann@example.org", &to).await;
    send(&app, &ann, "ann@example.org", &["bob@example.org"]).await;
    app.settle().await;
    read_events(&app).await;
    let whole = app.service.timeline(&ann, one, EventCursor::default(), 100).await.unwrap();
    let mut stored = types(&whole);
    assert_eq!(stored.remove(0), "message.accepted");
    stored.sort_unstable();
    assert_eq!(stored, ["message.bounced", "message.delivered"]);
    assert!(whole.events.iter().all(|event| event.message_id == Some(one)) && !whole.has_more);

    let first = app.service.timeline(&ann, one, EventCursor::default(), 1).await.unwrap();
    assert!(first.has_more);
    let rest = app.service.timeline(&ann, one, first.cursor, 100).await.unwrap();
    assert_eq!(rest.events, whole.events[1..]);
}

#[tokio::test]
async fn a_long_poll_ends_with_the_next_event_or_its_time() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let ann = caller(&app, &ann).await;
    let query = EventQuery { types: vec!["message.*".parse().unwrap()], ..EventQuery::default() };
    let nothing = app.service.list_events(&ann, &query, 100, Duration::from_millis(1)).await.unwrap();
    assert!(nothing.events.is_empty() && !nothing.has_more && !nothing.truncated);

    let query = EventQuery { after: After::Cursor(nothing.cursor), ..query };
    let waiting = app.service.list_events(&ann, &query, 100, LONG);
    let sending = async {
        send(&app, &ann, "ann@example.org", &["bob@example.org"]).await;
        // Wakes the reader as the background loop does.
        timeout(LONG, app.service.events_written()).await.expect("the send is an event");
        read_events(&app).await;
    };
    let (page, ()) = tokio::join!(waiting, sending);
    assert_eq!(types(&page.unwrap()), ["message.accepted"]);
}

#[tokio::test]
async fn streams_get_each_event_once_and_follow_the_callers_rights() {
    let app = TestApp::start().await;
    let (ann, bob) = (app.user("ann@example.org").await, app.user("bob@example.org").await);
    let (ann, bob) = (caller(&app, &ann).await, caller(&app, &bob).await);
    let query = EventQuery { types: vec!["message.accepted".parse().unwrap()], ..from_start() };
    let mut stream = app.service.event_stream(&ann, query.clone()).await.unwrap();
    let mut of_bob = app.service.event_stream(&bob, query).await.unwrap();
    for _ in 0..3 {
        send(&app, &ann, "ann@example.org", &["bob@example.org"]).await;
    }
    read_events(&app).await;
    let mut numbers = Vec::new();
    while numbers.len() < 3 {
        let page = timeout(LONG, stream.next()).await.expect("an event").unwrap();
        numbers.extend(page.events.iter().map(|event| event.number));
    }
    assert!(numbers.is_sorted() && numbers.len() == 3, "{numbers:?}");
    assert_eq!(stream.behind(), 0);
    assert!(timeout(Duration::from_millis(20), stream.next()).await.is_err(), "there are no others");
    assert!(timeout(Duration::from_millis(20), of_bob.next()).await.is_err(), "they are not bob's");

    of_bob.renew(&caller(&app, app.admin()).await).await.unwrap();
    send(&app, &ann, "ann@example.org", &["bob@example.org"]).await;
    read_events(&app).await;
    assert_eq!(types(&timeout(LONG, of_bob.next()).await.expect("an event").unwrap()), ["message.accepted"]);
}

#[tokio::test]
async fn a_stream_that_is_far_behind_reads_the_database() {
    const MANY: u64 = 30;
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    let ann = caller(&app, &ann).await;
    let query = EventQuery { types: vec!["message.accepted".parse().unwrap()], ..from_start() };
    let mut slow = app.service.event_stream(&ann, query.clone()).await.unwrap();
    for _ in 0..MANY {
        send(&app, &ann, "ann@example.org", &["eve@example.net"]).await;
        read_events(&app).await;
    }
    let mut late = app.service.event_stream(&ann, query).await.unwrap();
    for stream in [&mut slow, &mut late] {
        let mut count = 0;
        while count < MANY {
            count += timeout(LONG, stream.next()).await.expect("an event").unwrap().events.len() as u64;
        }
        assert_eq!(count, MANY);
    }
}

#[tokio::test]
async fn old_events_are_deleted_and_a_reader_of_them_is_warned() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    let ann = caller(&app, &ann).await;
    send(&app, &ann, "ann@example.org", &["ann@example.org"]).await;
    let before = seen(&app, &ann).await;
    app.clock.advance(app.service.settings().event_retention + Duration::from_secs(1));
    send(&app, &ann, "ann@example.org", &["ann@example.org"]).await;
    read_events(&app).await;
    assert!(app.service.prune_once().await.unwrap() > 0);

    assert!(matches!(app.service.event(&ann, before.events[0].id).await, Err(EventError::NotFound)));
    let query = EventQuery { after: After::Cursor(EventCursor::default()), ..EventQuery::default() };
    let page = app.service.list_events(&ann, &query, 100, AT_ONCE).await.unwrap();
    assert!(page.truncated);
    assert!(!seen(&app, &ann).await.truncated, "from the start means from the oldest event that is kept");
}

#[tokio::test]
async fn events_of_another_process_reach_the_streams_of_this_one() {
    let app = TestApp::start().await;
    let token = app.user("ann@example.org").await;
    let ann = caller(&app, &token).await;
    let query = EventQuery { types: vec!["message.accepted".parse().unwrap()], ..EventQuery::default() };
    let mut stream = app.service.event_stream(&ann, query).await.unwrap();
    let beside = app.beside(app.service.settings().clone()).await;
    beside.send(&ann, message("ann@example.org", &["ann@example.org"])).await.unwrap();
    beside.read_events_once().await.unwrap();
    let mut page = None;
    while page.is_none() {
        timeout(LONG, app.service.events_written()).await.expect("a sign of the other process");
        read_events(&app).await;
        page = timeout(Duration::from_millis(20), stream.next()).await.ok();
    }
    assert_eq!(types(&page.unwrap().unwrap()), ["message.accepted"]);
}

#[tokio::test]
async fn a_locked_log_in_is_an_event_if_the_mailbox_exists() {
    let app = TestApp::start().await;
    app.user("ann@example.org").await;
    let admin = caller(&app, app.admin()).await;
    let query = EventQuery { types: vec!["login.*".parse().unwrap()], ..EventQuery::default() };
    let mut stream = app.service.event_stream(&admin, query).await.unwrap();
    let wrong = Secret::new("a wrong password".to_owned());
    for address in ["nobody@example.org", "ann@example.org"] {
        for _ in 0..app.service.settings().login_attempts {
            assert!(app.service.login(address, &wrong, HERE).await.is_err());
        }
    }
    let page = loop {
        read_events(&app).await;
        if let Ok(page) = timeout(Duration::from_millis(20), stream.next()).await {
            break page.unwrap();
        }
    };
    let emails: Vec<_> = page.events.iter().map(|event| event.mailbox.as_ref().unwrap().as_str()).collect();
    assert_eq!((types(&page), emails), (vec!["login.locked"], vec!["ann@example.org"]));
}

#[tokio::test]
async fn each_received_message_is_an_event_of_its_mailbox() {
    let app = TestApp::start().await;
    let (ann, bob) = (app.user("ann@example.org").await, app.user("bob@example.org").await);
    let (ann, bob) = (caller(&app, &ann).await, caller(&app, &bob).await);
    let message =
        "From: Eve <eve@example.net>\r\nMessage-ID: <1@example.net>\r\nSubject: Good news\r\n\r\nHello,\r\n  Ann\r\n";
    app.deliver("eve@example.net", "ann@example.org", message).await;
    app.settle().await;
    send(&app, &bob, "bob@example.org", &["ann@example.org"]).await;
    app.settle().await;
    app.settle().await;

    let page = seen(&app, &ann).await;
    assert_eq!(types(&page), ["message.received"; 2], "from outside, and from bob");
    let data = |place: usize| {
        let body: serde_json::Value = serde_json::from_str(&page.events[place].body).unwrap();
        body["data"].clone()
    };
    let (outside, inside) = (data(0), data(1));
    assert_eq!((outside["from"].as_str(), outside["from_name"].as_str()), (Some("eve@example.net"), Some("Eve")));
    assert_eq!((&outside["subject"], &outside["snippet"]), (&"Good news".into(), &"Hello, Ann".into()));
    assert_eq!((outside["mailbox"].as_str(), outside["folder"].as_str()), (Some("ann@example.org"), Some("INBOX")));
    assert!(outside["size"].as_u64() > Some(50) && outside["has_attachments"] == false);
    assert!(outside["authentication"].is_null(), "nothing judged it");
    assert_eq!(inside["from"], "bob@example.org");
    assert!(outside["uid"].as_u64() > Some(0) && inside["uid"].as_u64() > outside["uid"].as_u64());
    let queue_ids = [&outside["queue_id"], &inside["queue_id"]].map(|id| id.as_str().unwrap());
    assert!(queue_ids.iter().all(|id| !id.is_empty()) && queue_ids[0] != queue_ids[1]);

    let domain = "example.org".parse().unwrap();
    app.domain("example.net").await;
    let eve = app.user("eve@example.net").await;
    for (permission, expected) in [
        (Permission::ViewStats, vec!["message.accepted", "message.delivered"]),
        (
            Permission::ViewMailbox,
            vec!["message.accepted", "message.delivered", "message.received", "message.received"],
        ),
    ] {
        app.service
            .grant_permission(&Caller::operator(), &"eve@example.net".parse().unwrap(), permission, &domain)
            .await
            .unwrap();
        let eve = caller(&app, &eve).await;
        let page = seen(&app, &eve).await;
        let mut types = types(&page);
        // The built-in mail server stores the receipt before its report is read.
        types.sort_unstable();
        assert_eq!(types, expected, "{permission}");
    }
}

#[tokio::test]
async fn results_of_the_checks_are_in_the_event() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    let ann = caller(&app, &ann).await;
    let named = |result| CheckedDomain { result, domain: Some("example.net".to_owned()) };
    let signature = CheckedSignature { result: Fail, domain: None, selector: Some("s1".to_owned()) };
    let results = Authentication { spf: named(Softfail), dkim: vec![signature], dmarc: named(Pass), arc: Nothing };
    let text = "From: eve@example.net\r\nSubject: Hello\r\n\r\nHello\r\n";
    assert!(app.mail_server.deliver_checked("eve@example.net", "ann@example.org", text, results).await);
    app.deliver("eve@example.net", "ann@example.org", text).await;
    app.settle().await;
    let page = seen(&app, &ann).await;
    let found = page.events.iter().map(|event| {
        let mut body: serde_json::Value = serde_json::from_str(&event.body).unwrap();
        body["data"]["authentication"].take()
    });
    let expected = serde_json::json!({
        "spf": {"result": "softfail", "domain": "example.net"},
        "dkim": [{"result": "fail", "domain": null, "selector": "s1"}],
        "dmarc": {"result": "pass", "domain": "example.net"},
        "arc": {"result": "none"},
    });
    assert_eq!(found.collect::<Vec<_>>(), [expected, serde_json::Value::Null]);
}
