//! `/queue`.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::StatusCode;
use mailapi_backend::{Queue, QueueChange, QueueEntry, QueueError, QueueFilter};
use mailapi_model::{Listed, Page, QueueId};
use serde_json::{Value, json};

use crate::support::{App, EVE};

const UNKNOWN: &str = "4jXsKf6thLz1SRkq";

/// Starts a service with a message from Ann that waits in the queue. Returns its status and its entry in the queue.
async fn with_waiting() -> (App, String, String, Value) {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let message = json!({ "from": "ann@example.org", "to": [EVE], "subject": "Hi", "body": { "text": "x" } });
    let sent = app.post(&ann, "/mail/send", message).await.assert(StatusCode::ACCEPTED);
    app.sync().await;
    let listed = app.get(&app.admin, "/queue").await.assert(StatusCode::OK);
    assert_eq!(listed["total"], 1, "{listed}");
    (app, ann, sent["message_id"].as_str().unwrap().to_owned(), listed["messages"][0].clone())
}

async fn change(app: &App, id: &str, change: &str) -> Value {
    let path = format!("/queue/{id}/{change}");
    // A real Postfix may be delivering.
    loop {
        let answer = app.post_empty(&app.admin, &path).await;
        if answer.status != StatusCode::CONFLICT || answer.json()["error"] != "QUEUE_MESSAGE_BUSY" {
            return answer.json();
        }
    }
}

#[tokio::test]
async fn every_parameter_that_breaks_a_rule_is_named() {
    let app = App::start().await;
    let answer = app.get(&app.admin, "/queue?domain=..&recipient=x&state=lost&limit=0&offset=x").await;
    assert_eq!(answer.assert_invalid(), ["domain", "recipient", "state", "limit", "offset"]);
}

#[tokio::test]
async fn an_unknown_message_is_reported() {
    let app = App::start().await;
    for id in [UNKNOWN, "ALL", "-d", "%2e%2e"] {
        app.get(&app.admin, &format!("/queue/{id}")).await.assert_error(404, "QUEUE_MESSAGE_NOT_FOUND");
        for change in ["retry", "hold", "release", "cancel"] {
            let answer = app.post_empty(&app.admin, &format!("/queue/{id}/{change}")).await;
            answer.assert_error(404, "QUEUE_MESSAGE_NOT_FOUND");
        }
    }
}

#[tokio::test]
async fn a_waiting_message_is_shown_with_its_last_reply() {
    let (app, _, message_id, entry) = with_waiting().await;
    assert_eq!((&entry["message_id"], &entry["recipient_count"]), (&json!(message_id), &json!(1)));
    let recipient = &entry["recipients"][0];
    assert_eq!(recipient["email"], EVE);
    assert!(recipient["last_reply"].as_str().unwrap().contains("450 4.2.0 Come again later"), "{entry}");
    assert!(entry["size"].as_u64().unwrap() > 0);
    let id = entry["queue_id"].as_str().unwrap();
    let found = app.get(&app.admin, &format!("/queue/{id}")).await.assert(StatusCode::OK);
    assert_eq!((&found["queue_id"], &found["message_id"]), (&entry["queue_id"], &entry["message_id"]));
    for (query, expected) in [
        ("domain=elsewhere.example", 1),
        ("domain=example.org", 1),
        ("domain=other.example", 0),
        ("recipient=Eve@Elsewhere.example", 1),
        ("recipient=ann@example.org", 0),
        ("state=held", 0),
        ("limit=1&offset=1", 0),
    ] {
        let listed = app.get(&app.admin, &format!("/queue?{query}")).await.assert(StatusCode::OK);
        assert_eq!(listed["messages"].as_array().unwrap().len(), expected, "{query}");
    }
}

#[tokio::test]
async fn a_held_message_is_released_or_cancelled() {
    let (app, ann, message_id, entry) = with_waiting().await;
    let id = entry["queue_id"].as_str().unwrap();
    assert_eq!(change(&app, id, "hold").await["message"], "The message is on hold.");
    let held = app.get(&app.admin, "/queue?state=held").await.assert(StatusCode::OK);
    assert_eq!(held["messages"][0]["recipients"][0]["status"], "held");
    assert_eq!(held["messages"][0]["recipients"][0]["next_attempt_at"], Value::Null);
    app.post_empty(&app.admin, &format!("/queue/{id}/retry")).await.assert_error(409, "QUEUE_MESSAGE_HELD");
    assert_eq!(change(&app, id, "release").await["message"], "The message is not on hold.");
    assert_eq!(change(&app, id, "retry").await["message"], "The message is due now.");
    assert_eq!(change(&app, id, "cancel").await["queue_id"], id);
    app.get(&app.admin, &format!("/queue/{id}")).await.assert_error(404, "QUEUE_MESSAGE_NOT_FOUND");

    let status = format!("/mail/{message_id}/status");
    // Postfix logs the deletion through another process.
    let mut shown = Value::Null;
    for _ in 0..200 {
        app.get(&app.admin, "/mail/delivery-log/sync").await.assert(StatusCode::OK);
        shown = app.get(&ann, &status).await.assert(StatusCode::OK);
        if shown["status"] == "bounced" {
            break;
        }
    }
    assert_eq!(shown["status"], "bounced", "{shown}");
    let log = app.get(&app.admin, "/mail/delivery-log?status=bounced").await.assert(StatusCode::OK);
    assert_eq!(log["entries"][0]["smtp_response"], QueueChange::CANCELLED);
    app.read_events().await;
    let timeline = app.get(&ann, &format!("/mail/{message_id}/timeline")).await.assert(StatusCode::OK);
    let bounced = |event: &&Value| event["type"] == "message.bounced";
    assert_eq!(timeline["events"].as_array().unwrap().iter().filter(bounced).count(), 1, "{timeline}");
    let inbox = app.get(&ann, "/mail/inbox").await.assert(StatusCode::OK);
    assert_eq!(inbox["total"], 0, "the sender gets no notice");
}

/// A queue that only fails.
struct Failing(QueueError);

#[async_trait]
impl Queue for Failing {
    async fn list(&self, _: &QueueFilter, _: Page) -> Result<Listed<QueueEntry>, QueueError> {
        Err(self.0.clone())
    }

    async fn get(&self, _: &QueueId) -> Result<QueueEntry, QueueError> {
        Err(self.0.clone())
    }

    async fn change(&self, _: &QueueId, _: QueueChange) -> Result<(), QueueError> {
        Err(self.0.clone())
    }
}

#[tokio::test]
async fn an_admin_gets_the_reason_of_a_failure() {
    for (error, status, code, expected) in [
        (QueueError::Busy, 409, "QUEUE_MESSAGE_BUSY", "in progress"),
        (QueueError::Unsupported("set postsuper".to_owned()), 501, "QUEUE_UNSUPPORTED", "set postsuper"),
        (QueueError::Unavailable("no right".to_owned()), 503, "QUEUE_UNAVAILABLE", "no right"),
    ] {
        let app = App::start().await;
        app.trouble.fail_queue(Arc::new(Failing(error)));
        let answer = app.post_empty(&app.admin, &format!("/queue/{UNKNOWN}/cancel")).await;
        let message = answer.assert_error(status, code);
        assert!(message.contains(expected), "{message}");
        if status > 500 {
            app.get(&app.admin, "/queue").await.assert_error(status, code);
            app.get(&app.admin, &format!("/queue/{UNKNOWN}")).await.assert_error(status, code);
        }
    }
}
