//! `GET /mail/{message_id}/status`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_model::{Clock, DeliveryEvent, EnhancedCode, Evidence, Outcome, QueueId, TokenKind};
use serde_json::{Value, json};

use crate::support::{InMemoryApp, token};

async fn send(app: &InMemoryApp, token: &str, to: &[&str]) -> String {
    let body = json!({ "from": "ann@example.org", "to": to, "body": { "text": "Hello" } });
    let sent = app.post(token, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    sent["message_id"].as_str().unwrap().to_owned()
}

async fn status(app: &InMemoryApp, token: &str, id: &str) -> Value {
    app.get(token, &format!("/mail/{id}/status")).await.assert(StatusCode::OK)
}

#[tokio::test]
async fn to_strangers_a_message_does_not_exist() {
    let (app, ann, bob) = InMemoryApp::with_ann_and_bob().await;
    let id = send(&app, &ann, &["bob@example.org"]).await;
    app.get(&bob, &format!("/mail/{id}/status")).await.assert_error(404, "MESSAGE_NOT_FOUND");
    for id in ["67e55044-10b1-426f-9247-bb680e5fe0c8", "x", "%00", &id.replace('-', "")] {
        app.get(&ann, &format!("/mail/{id}/status")).await.assert_error(404, "MESSAGE_NOT_FOUND");
    }
    let second = token(&app.service, TokenKind::User, Some("ann@example.org")).await;
    for caller in [&ann, &second, &app.admin] {
        assert_eq!(status(&app, caller, &id).await["message_id"], id.as_str());
    }
}

#[tokio::test]
async fn each_recipient_has_a_story_of_its_own() {
    let (app, ann, _) = InMemoryApp::with_ann_and_bob().await;
    let id = send(&app, &ann, &["bob@example.org", "nobody@example.org", "eve@elsewhere.example"]).await;
    let before = status(&app, &ann, &id).await;
    assert_eq!(
        (&before["recipients"][0]["status"], &before["recipients"][0]["dsn_code"]),
        (&json!("submitted"), &json!(null))
    );
    app.clock.advance(Duration::from_secs(1));
    app.get(&app.admin, "/mail/delivery-log/sync").await.assert(StatusCode::OK);
    let expected = json!({
        "success": true, "message_id": id, "status": "submitted", "created_at": "2026-11-20T10:15:30.000Z",
        "submitted_at": "2026-11-20T10:15:30.000Z", "recipients": [
            { "email": "bob@example.org", "type": "to", "status": "sent", "dsn_code": "2.1.5",
              "delivered_at": "2026-11-20T10:15:30.000Z" },
            { "email": "nobody@example.org", "type": "to", "status": "bounced", "dsn_code": "5.1.1",
              "smtp_response": "550 5.1.1 No such user", "bounced_at": "2026-11-20T10:15:30.000Z" },
            { "email": "eve@elsewhere.example", "type": "to", "status": "deferred", "dsn_code": "4.4.1",
              "smtp_response": "451 4.4.1 No answer", "attempts": 1, "last_attempt_at": "2026-11-20T10:15:30.000Z" },
        ],
    });
    assert_eq!(status(&app, &ann, &id).await, expected);
}

#[tokio::test]
async fn a_bounce_that_comes_back_later_is_kept_with_both_times() {
    let (app, ann, _) = InMemoryApp::with_ann_and_bob().await;
    let id = send(&app, &ann, &["bob@example.org"]).await;
    app.get(&app.admin, "/mail/delivery-log/sync").await.assert(StatusCode::OK);
    assert_eq!(status(&app, &ann, &id).await["status"], "sent");
    app.clock.advance(Duration::from_secs(3600));
    app.mail_server.report(DeliveryEvent {
        at: app.clock.now(),
        message_id: Some(id.parse().unwrap()),
        queue_id: QueueId("Q1".to_owned()),
        sender: None,
        recipient: "bob@example.org".parse().unwrap(),
        outcome: Outcome::Bounced,
        evidence: Evidence::ReturnedMail,
        dsn: Some(EnhancedCode::new(5, 2, 2)),
        response: "552 5.2.2 Mailbox full".to_owned(),
        relay: None,
        delay: Duration::ZERO,
    });
    app.get(&app.admin, "/mail/delivery-log/sync").await.assert(StatusCode::OK);
    let seen = status(&app, &ann, &id).await;
    let bob = &seen["recipients"][0];
    assert_eq!((&seen["status"], &bob["status"]), (&json!("bounced"), &json!("bounced")));
    assert_eq!(bob["delivered_at"], "2026-11-20T10:15:30.000Z");
    assert_eq!(bob["bounced_at"], "2026-11-20T11:15:30.000Z");
}
