//! `GET /mail/{message_id}/status`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_model::{Clock, DeliveryEvent, EnhancedCode, Evidence, Outcome, QueueId, TokenKind};
use serde_json::{Value, json};

use crate::support::{App, EVE, is_about, token};

async fn send(app: &App, token: &str, to: &[&str]) -> String {
    let body = json!({ "from": "ann@example.org", "to": to, "body": { "text": "Hello" } });
    let sent = app.post(token, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    sent["message_id"].as_str().unwrap().to_owned()
}

async fn status(app: &App, token: &str, id: &str) -> Value {
    app.get(token, &format!("/mail/{id}/status")).await.assert(StatusCode::OK)
}

#[tokio::test]
async fn to_strangers_a_message_does_not_exist() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
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
    let (app, ann, _) = App::with_ann_and_bob().await;
    let id = send(&app, &ann, &["bob@example.org", "nobody@example.org", EVE]).await;
    let before = status(&app, &ann, &id).await;
    assert_eq!(
        (&before["recipients"][0]["status"], &before["recipients"][0]["dsn_code"]),
        (&json!("submitted"), &json!(null))
    );
    let submitted = app.now();
    app.sync().await;
    let mut seen = status(&app, &ann, &id).await;
    for (place, time, says) in
        [(0, "delivered_at", None), (1, "bounced_at", Some("5.1.1")), (2, "last_attempt_at", Some("Come again later"))]
    {
        let recipient = &mut seen["recipients"][place];
        assert!(is_about(&recipient[time].take(), submitted), "{recipient}");
        if let Some(says) = says {
            let said = recipient["smtp_response"].take();
            assert!(said.as_str().is_some_and(|said| said.contains(says)), "{said}");
        }
    }
    let code = seen["recipients"][0]["dsn_code"].take();
    assert!(code.as_str().is_some_and(|code| code.starts_with("2.")), "{code}");
    let at = submitted.to_string();
    let expected = json!({
        "success": true, "message_id": id, "status": "submitted", "created_at": at, "submitted_at": at, "recipients": [
            { "email": "bob@example.org", "type": "to", "status": "sent", "dsn_code": null, "delivered_at": null },
            { "email": "nobody@example.org", "type": "to", "status": "bounced", "dsn_code": "5.1.1",
              "smtp_response": null, "bounced_at": null },
            { "email": EVE, "type": "to", "status": "deferred", "dsn_code": "4.2.0", "smtp_response": null,
              "attempts": 1, "last_attempt_at": null },
        ],
    });
    assert_eq!(seen, expected);
}

/// Builds a bounce from Bob's server, which gave up delivery of the message.
fn bounce_that_came_back(app: &App, id: &str) -> DeliveryEvent {
    DeliveryEvent {
        at: app.clock.now(),
        message_id: Some(id.parse().unwrap()),
        queue_id: QueueId("MADE-UP".to_owned()),
        sender: None,
        recipient: "bob@example.org".parse().unwrap(),
        final_recipient: None,
        outcome: Outcome::Bounced,
        evidence: Evidence::ReturnedMail,
        dsn: Some(EnhancedCode::new(5, 2, 2)),
        response: "552 5.2.2 Mailbox full".to_owned(),
        relay: None,
        delay: Duration::ZERO,
        next_attempt_at: None,
    }
}

#[tokio::test]
async fn a_bounce_of_an_alias_member_shows_beside_the_status() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let id = send(&app, &ann, &["bob@example.org"]).await;
    app.sync().await;
    app.clock.advance(Duration::from_secs(3600));
    app.trouble
        .report(DeliveryEvent { final_recipient: "bob@home.example".parse().ok(), ..bounce_that_came_back(&app, &id) });
    app.sync().await;
    let seen = status(&app, &ann, &id).await;
    let bob = &seen["recipients"][0];
    assert_eq!((&seen["status"], &bob["status"]), (&json!("sent"), &json!("sent")));
    assert_eq!(bob["partly_bounced_at"], app.now().to_string());
    assert_eq!(bob["partly_bounced_response"], "552 5.2.2 Mailbox full");
    assert_eq!((&bob["bounced_at"], &bob["smtp_response"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_bounce_that_comes_back_later_is_kept_with_both_times() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let id = send(&app, &ann, &["bob@example.org"]).await;
    let submitted = app.now();
    app.sync().await;
    assert_eq!(status(&app, &ann, &id).await["status"], "sent");
    app.clock.advance(Duration::from_secs(3600));
    app.trouble.report(bounce_that_came_back(&app, &id));
    app.sync().await;
    let seen = status(&app, &ann, &id).await;
    let bob = &seen["recipients"][0];
    assert_eq!((&seen["status"], &bob["status"]), (&json!("bounced"), &json!("bounced")));
    assert!(is_about(&bob["delivered_at"], submitted), "{bob}");
    assert_eq!(bob["bounced_at"], app.now().to_string());
}
