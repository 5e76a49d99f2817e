//! Counts of mail from outside, as reported by the listeners.

use std::time::Duration;

use mailapi_backend::InboundLog;
use mailapi_model::{DomainName, EmailAddress, InboundRefusal, RefusalStage, Reply};
use mailapi_service::Caller;
use mailapi_service::events::{After, EventQuery, StoredEvent};
use mailapi_service::stats::{InboundCounts, InboundEvent, InboundOutcome, PeriodQuery};
use mailapi_testkit::TestApp;
use serde_json::{Value, json};

use crate::moment;

#[tokio::test]
async fn only_mail_for_local_domains_is_counted() {
    let app = TestApp::start().await;
    app.domain("one.example").await;
    let note = |domain: &str, outcome| {
        app.service.note(InboundEvent {
            at: moment("2026-11-20T09:00:00Z"),
            domain: domain.parse().unwrap(),
            sender_domain: None,
            outcome,
        });
    };
    // A relay attempt, and a foreign domain with a similar name.
    note("elsewhere.example", InboundOutcome::Rejected);
    note("sub.one.example", InboundOutcome::Rejected);
    note("one.example", InboundOutcome::Rejected);
    note("one.example", InboundOutcome::Accepted);
    assert_eq!(app.service.write_inbound_once().await.unwrap(), 2);
    assert_eq!(app.service.write_inbound_once().await.unwrap(), 0);

    app.service.roll_up_once().await.unwrap();
    // A domain created later starts without counts.
    app.domain("elsewhere.example").await;
    let admin = Caller::operator();
    for (name, expected) in [
        ("one.example", InboundCounts { accepted: 1, rejected: 1, spam: 0 }),
        ("elsewhere.example", InboundCounts::default()),
    ] {
        let name: DomainName = name.parse().unwrap();
        assert_eq!(app.service.domain_stats(&admin, &name, PeriodQuery::default()).await.unwrap().inbound, expected);
    }
}

#[tokio::test]
async fn a_flood_is_stored_a_little_at_a_time_and_counted() {
    const EVENTS: u64 = 2_500;
    let app = TestApp::start().await;
    app.domain("one.example").await;
    for number in 0..EVENTS {
        let sender_domain = format!("s{number}.example").parse().ok();
        let (at, domain) = (moment("2026-11-20T09:00:00Z"), "one.example".parse().unwrap());
        app.service.note(InboundEvent { at, domain, sender_domain, outcome: InboundOutcome::Rejected });
    }
    assert_eq!(app.service.write_inbound_once().await.unwrap(), 1_000);
    let mut steps = 0;
    while app.service.roll_up_once().await.unwrap().more {
        steps += 1;
    }
    // The senders of refused mail are invented, so they make no groups that a step would count one by one.
    assert!(steps <= 4, "{steps} steps");
    let name: DomainName = "one.example".parse().unwrap();
    let stats = app.service.domain_stats(&Caller::operator(), &name, PeriodQuery::default()).await.unwrap();
    assert_eq!(stats.inbound, InboundCounts { accepted: 0, rejected: EVENTS, spam: 0 });
}

/// Refuses a message, as the listener does.
fn refuse(app: &TestApp, recipient: &str, client: &str) {
    let (at, recipient): (_, EmailAddress) = (moment("2026-11-20T09:00:00Z"), recipient.parse().unwrap());
    let (domain, outcome) = (recipient.domain(), InboundOutcome::Rejected);
    app.service.note(InboundEvent { at, domain, sender_domain: None, outcome });
    let reply = Reply::new(550, "5.1.1".parse().unwrap(), "no such mailbox");
    let (client, sender, stage) = (client.parse().ok(), "eve@example.net".parse().ok(), RefusalStage::Message);
    app.service.refused(InboundRefusal { at, client, sender, recipient, stage, reply });
}

/// Returns the data of each `message.rejected`.
async fn rejected(app: &TestApp) -> Vec<Value> {
    while app.service.read_events_once().await.unwrap() {}
    let types = vec!["message.rejected".parse().unwrap()];
    let query = EventQuery { after: After::Start, types, ..EventQuery::default() };
    let page = app.service.list_events(&Caller::operator(), &query, 100, Duration::ZERO).await.unwrap();
    let data = |event: &StoredEvent| serde_json::from_str::<Value>(&event.body).unwrap()["data"].clone();
    page.events.iter().map(data).collect()
}

#[tokio::test]
async fn refusals_for_local_domains_are_events_within_limits() {
    let app = TestApp::start().await;
    app.domain("one.example").await;
    let refuse = |recipient: &str, client: &str| refuse(&app, recipient, client);
    refuse("ann@elsewhere.example", "192.0.2.9");
    for _ in 0..50 {
        refuse("ann@one.example", "192.0.2.7");
    }
    refuse("ann@one.example", "192.0.2.8");
    assert_eq!(app.service.write_inbound_once().await.unwrap(), 51, "statistics count all of them");
    let data = rejected(&app).await;
    assert_eq!(data.len(), 21);
    let last = json!({
        "mailbox": "ann@one.example", "domain": "one.example", "from": "eve@example.net", "client": "192.0.2.8",
        "stage": "data", "left_out": 30,
        "smtp": {"code": 550, "enhanced": "5.1.1", "response": "550 5.1.1 no such mailbox"},
    });
    assert_eq!((&data[20], &data[0]["left_out"]), (&last, &json!(0)));
}

#[tokio::test]
async fn a_stop_does_not_forget_refusals_without_an_event() {
    let app = TestApp::start().await;
    app.domain("one.example").await;
    let refuse = |client: &str| refuse(&app, "ann@one.example", client);
    (0..30).for_each(|_| refuse("192.0.2.7"));
    app.service.write_inbound_once().await.unwrap();
    assert_eq!(rejected(&app).await.len(), 20);
    app.service.write_last_inbound().await.unwrap();
    let data = rejected(&app).await;
    assert_eq!((data.len(), &data[20]["client"], &data[20]["left_out"]), (21, &json!("192.0.2.7"), &json!(9)));
    app.service.write_last_inbound().await.unwrap();
    assert_eq!(rejected(&app).await.len(), 21, "once");
}

#[tokio::test]
async fn the_count_of_a_deleted_domain_goes_to_the_next_event() {
    let app = TestApp::start().await;
    app.domain("one.example").await;
    (0..30).for_each(|_| refuse(&app, "ann@one.example", "192.0.2.7"));
    app.service.write_inbound_once().await.unwrap();
    refuse(&app, "ann@elsewhere.example", "192.0.2.8");
    refuse(&app, "ann@one.example", "192.0.2.9");
    app.service.write_inbound_once().await.unwrap();
    assert_eq!(rejected(&app).await[20]["left_out"], 10);
}
