//! `GET /mail/delivery-log`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_model::{Clock, DeliveryEvent, Evidence, Outcome, QueueId};
use serde_json::{Value, json};

use crate::support::{App, day, is_about};

#[tokio::test]
async fn it_is_for_admins() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.get(&ann, "/mail/delivery-log").await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn every_parameter_that_breaks_a_rule_is_named() {
    let app = App::start().await;
    let query = "?message_id=x&sender=x&recipient=y&status=lost&start_date=soon&end_date=later&limit=x";
    let answer = app.get(&app.admin, &format!("/mail/delivery-log{query}")).await;
    let said = "must be a message's identifier, such as 67e55044-10b1-426f-9247-bb680e5fe0c8";
    assert_eq!(answer.json()["details"][0]["message"], said);
    assert_eq!(
        answer.assert_invalid(),
        ["message_id", "sender", "recipient", "status", "start_date", "end_date", "limit"]
    );
}

#[tokio::test]
async fn every_try_is_an_entry_and_filters_find_it() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let body = json!({ "from": "ann@example.org", "to": ["bob@example.org"], "body": { "text": "Hello" } });
    let sent = app.post(&ann, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    let (id, queue_id) = (sent["message_id"].as_str().unwrap(), sent["queue_id"].as_str().unwrap());
    app.sync().await;
    app.clock.advance(Duration::from_secs(60));
    app.trouble.report(DeliveryEvent {
        at: app.clock.now(),
        message_id: None,
        queue_id: QueueId("MADE-UP".to_owned()),
        sender: None,
        recipient: "ann@example.org".parse().unwrap(),
        final_recipient: "ann@home.example".parse().ok(),
        outcome: Outcome::Deferred,
        evidence: Evidence::MailServer,
        dsn: None,
        response: "connection timed out".to_owned(),
        relay: None,
        // A sum of two floating-point numbers would be 2.1189999999999998.
        delay: Duration::from_millis(2119),
        next_attempt_at: None,
    });
    app.sync().await;
    let mut log = app.get(&app.admin, "/mail/delivery-log").await.assert(StatusCode::OK);
    let entries = log["entries"].as_array_mut().unwrap();
    assert!(entries[0]["id"].take().as_i64() > entries[1]["id"].take().as_i64());
    let now = app.now();
    let newest = json!({
        "id": null, "timestamp": now.to_string(), "message_id": null, "queue_id": "MADE-UP", "sender": "",
        "recipient": "ann@example.org", "final_recipient": "ann@home.example", "status": "deferred", "dsn_code": null,
        "smtp_response": "connection timed out", "relay": null, "delay_seconds": 2.119,
    });
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let first = &mut entries[1];
    assert!(is_about(&first["timestamp"].take(), app.ago(Duration::from_secs(60))), "{first}");
    assert!(is_text(&first["smtp_response"].take()) && is_text(&first["relay"].take()), "{first}");
    assert!(first["delay_seconds"].take().as_f64().is_some_and(|delay| (0.0..60.0).contains(&delay)), "{first}");
    assert!(first["dsn_code"].take().as_str().is_some_and(|code| code.starts_with("2.")), "{first}");
    let expected = json!({ "success": true, "total": 2, "limit": 50, "offset": 0, "entries": [newest, {
        "id": null, "timestamp": null, "message_id": id, "queue_id": queue_id, "sender": "ann@example.org",
        "recipient": "bob@example.org", "final_recipient": null, "status": "sent", "dsn_code": null,
        "smtp_response": null, "relay": null, "delay_seconds": null,
    }] });
    assert_eq!(log, expected);

    let between = app.ago(Duration::from_secs(10));
    for (query, expected) in [
        (format!("message_id={id}"), queue_id),
        ("queue_id=MADE-UP".to_owned(), "MADE-UP"),
        ("sender=ann@example.org".to_owned(), queue_id),
        ("recipient=Ann@example.org".to_owned(), "MADE-UP"),
        ("status=deferred".to_owned(), "MADE-UP"),
        (format!("start_date={between}"), "MADE-UP"),
        (format!("end_date={between}"), queue_id),
        ("limit=1&offset=1".to_owned(), queue_id),
    ] {
        let found = app.get(&app.admin, &format!("/mail/delivery-log?{query}")).await.assert(StatusCode::OK);
        assert_eq!(found["entries"].as_array().unwrap().len(), 1, "{query}");
        assert_eq!(found["entries"][0]["queue_id"], expected, "{query}");
    }
    let today = format!("/mail/delivery-log?end_date={}", day(app.now()));
    assert_eq!(app.get(&app.admin, &today).await.assert(StatusCode::OK)["total"], 2, "the day is in the period");
}
