//! `GET /mail/delivery-log`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_model::{Clock, DeliveryEvent, Evidence, Outcome, QueueId};
use serde_json::json;

use crate::support::InMemoryApp;

#[tokio::test]
async fn it_is_for_admins() {
    let (app, ann, _) = InMemoryApp::with_ann_and_bob().await;
    app.get(&ann, "/mail/delivery-log").await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn every_parameter_that_breaks_a_rule_is_named() {
    let app = InMemoryApp::start().await;
    let query = "?message_id=x&sender=x&recipient=y&status=lost&start_date=soon&end_date=later&limit=x";
    let fields = app.get(&app.admin, &format!("/mail/delivery-log{query}")).await.assert_invalid();
    assert_eq!(fields, ["message_id", "sender", "recipient", "status", "start_date", "end_date", "limit"]);
}

#[tokio::test]
async fn every_try_is_an_entry_and_filters_find_it() {
    let (app, ann, _) = InMemoryApp::with_ann_and_bob().await;
    let body = json!({ "from": "ann@example.org", "to": ["bob@example.org"], "body": { "text": "Hello" } });
    let id = app.post(&ann, "/mail/send", body).await.assert(StatusCode::ACCEPTED)["message_id"].clone();
    app.clock.advance(Duration::from_secs(60));
    app.mail_server.report(DeliveryEvent {
        at: app.clock.now(),
        message_id: None,
        queue_id: QueueId("Q9".to_owned()),
        sender: None,
        recipient: "ann@example.org".parse().unwrap(),
        outcome: Outcome::Deferred,
        evidence: Evidence::MailServer,
        dsn: None,
        response: "connection timed out".to_owned(),
        relay: None,
        delay: Duration::from_millis(1500),
    });
    app.get(&app.admin, "/mail/delivery-log/sync").await.assert(StatusCode::OK);
    let mut log = app.get(&app.admin, "/mail/delivery-log").await.assert(StatusCode::OK);
    let entries = log["entries"].as_array_mut().unwrap();
    assert!(entries[0]["id"].take().as_i64() > entries[1]["id"].take().as_i64());
    let expected = json!({ "success": true, "total": 2, "limit": 50, "offset": 0, "entries": [
        { "id": null, "timestamp": "2026-11-20T10:16:30.000Z", "message_id": null, "queue_id": "Q9", "sender": "",
          "recipient": "ann@example.org", "status": "deferred", "dsn_code": null,
          "smtp_response": "connection timed out", "relay": null, "delay_seconds": 1.5 },
        { "id": null, "timestamp": "2026-11-20T10:15:30.000Z", "message_id": id, "queue_id": "Q1",
          "sender": "ann@example.org", "recipient": "bob@example.org", "status": "sent", "dsn_code": "2.1.5",
          "smtp_response": "250 2.1.5 Delivered", "relay": "local", "delay_seconds": 0.12 },
    ] });
    assert_eq!(log, expected);

    for (query, queue_id) in [
        (format!("message_id={}", id.as_str().unwrap()), "Q1"),
        ("queue_id=Q9".to_owned(), "Q9"),
        ("sender=ann@example.org".to_owned(), "Q1"),
        ("recipient=Ann@example.org".to_owned(), "Q9"),
        ("status=deferred".to_owned(), "Q9"),
        ("start_date=2026-11-20T10:16:00Z".to_owned(), "Q9"),
        ("end_date=2026-11-20T10:16:00Z".to_owned(), "Q1"),
        ("limit=1&offset=1".to_owned(), "Q1"),
    ] {
        let found = app.get(&app.admin, &format!("/mail/delivery-log?{query}")).await.assert(StatusCode::OK);
        assert_eq!(found["entries"].as_array().unwrap().len(), 1, "{query}");
        assert_eq!(found["entries"][0]["queue_id"], queue_id, "{query}");
    }
}
