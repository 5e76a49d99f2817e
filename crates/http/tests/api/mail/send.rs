//! `POST /mail/send`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_backend::{Refusal, SubmitError};
use mailapi_model::{EnhancedCode, Permission, Reply};
use serde_json::{Value, json};

use crate::support::{Answer, App};

fn message() -> Value {
    json!({ "from": "ann@example.org", "to": ["bob@example.org"], "subject": "Hi", "body": { "text": "Hello Bob" } })
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut message = message();
    change(&mut message);
    message
}

async fn send_with_key(app: &App, token: &str, key: &str, body: &Value) -> Answer {
    app.post_named(token, "/mail/send", key, body.to_string()).await
}

#[tokio::test]
async fn nobody_sends_as_somebody_else() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let as_bob = with(|m| m["from"] = json!("Ann <bob@example.org>"));
    app.post(&ann, "/mail/send", as_bob.clone()).await.assert_error(403, "SENDER_NOT_AUTHORIZED");
    let from_nowhere = with(|m| m["from"] = json!("ann@nowhere.example"));
    app.post(&ann, "/mail/send", from_nowhere.clone()).await.assert_error(403, "SENDER_NOT_AUTHORIZED");
    app.post(&app.admin, "/mail/send", from_nowhere).await.assert_error(403, "DOMAIN_NOT_ALLOWED");
    assert_eq!(app.trouble.submitted(), 0);
    assert_eq!(app.get(&app.admin, "/mail/sent").await.json()["total"], 0);
    app.post(&bob, "/mail/send", as_bob).await.assert(StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_delegate_sends_as_everybody_of_the_domain() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::SendMail, "example.org").await;
    let as_bob = with(|m| m["from"] = json!("bob@example.org"));
    app.post(&ann, "/mail/send", as_bob).await.assert(StatusCode::ACCEPTED);
}

#[tokio::test]
async fn every_member_that_is_missing_or_of_a_wrong_type_is_named() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    assert_eq!(app.post(&ann, "/mail/send", json!({})).await.assert_invalid(), ["to", "body", "from"]);
    let body = json!({
        "from": 1, "to": "bob@example.org", "cc": [2], "bcc": {}, "subject": [], "body": { "text": 1, "html": false },
        "reply_to": 0, "headers": { "X-A": 1 }, "attachments": [{ "filename": 1 }, "file"],
    });
    let mut fields = app.post(&ann, "/mail/send", body).await.assert_invalid();
    fields.sort();
    let expected = [
        "attachments[0].content",
        "attachments[0].filename",
        "attachments[1]",
        "bcc",
        "body.html",
        "body.text",
        "cc[0]",
        "from",
        "headers.X-A",
        "reply_to",
        "subject",
        "to",
    ];
    assert_eq!(fields, expected);
}

#[tokio::test]
async fn every_rule_that_is_broken_is_named() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let body = json!({
        "from": "nobody", "to": ["bob@example.org", "x", "Bob <bob@example.org>, Eve <eve@example.org>"],
        "cc": ["a b@example.org"], "subject": "a\nb", "body": {},
        "reply_to": "@", "headers": { "Bcc": "eve@example.org", "X-Ok": "fine", "X-Bad": "a\r\nBcc: eve@example.org" },
        "attachments": [{ "filename": "", "content": "!", "content_type": "nonsense", "content_id": "a b" }],
    });
    let mut fields = app.post(&ann, "/mail/send", body).await.assert_invalid();
    fields.sort();
    let expected = [
        "attachments[0].content",
        "attachments[0].content_id",
        "attachments[0].content_type",
        "attachments[0].filename",
        "body",
        "cc[0]",
        "from",
        "headers.Bcc",
        "headers.X-Bad",
        "reply_to",
        "subject",
        "to[1]",
        "to[2]",
    ];
    assert_eq!(fields, expected);
    let long_name = json!([{ "filename": "a".repeat(256), "content": "" }]);
    let answer = app.post(&ann, "/mail/send", with(|m| m["attachments"] = long_name)).await;
    assert_eq!(answer.assert_invalid(), ["attachments[0].filename"]);
    for nobody in [json!([]), json!(null)] {
        assert_eq!(app.post(&ann, "/mail/send", with(|m| m["to"] = nobody)).await.assert_invalid(), ["to"]);
    }
    assert_eq!(app.trouble.submitted(), 0);
}

#[tokio::test]
async fn too_many_recipients_and_too_large_a_message_are_refused() {
    let app = App::with(|settings, _| {
        settings.draft.max_recipients = 2;
        settings.max_message_bytes = 2000;
    })
    .await;
    app.domain("example.org").await;
    let ann = app.user("ann@example.org").await;
    let three = with(|m| m["cc"] = json!(["a@example.net", "b@example.net"]));
    assert_eq!(app.post(&ann, "/mail/send", three).await.assert_invalid(), ["to"]);
    let large = with(|m| m["body"]["text"] = json!("x".repeat(2001)));
    app.post(&ann, "/mail/send", large).await.assert_error(413, "PAYLOAD_TOO_LARGE");
    assert_eq!(app.get(&ann, "/mail/sent").await.json()["total"], 0);
}

#[tokio::test]
async fn what_was_sent_is_delivered_recorded_and_readable() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let body = json!({
        "from": "Ann Lee <ann@example.org>", "to": ["Bob <bob@example.org>"], "cc": ["ann@example.org"],
        "bcc": ["BOB@example.org", "eve@elsewhere.example"], "subject": "Grüße", "reply_to": "office@example.org",
        "body": { "text": "Hello", "html": "<p>Hello</p>" }, "headers": { "X-Campaign": "spring" },
        "attachments": [
            { "filename": "ü.txt", "content": "SGVs\r\nbG8h", "content_type": "text/plain" },
            { "filename": "logo.png", "content": "iVBORw==", "content_type": "image/png", "content_id": "logo" },
        ],
    });
    let sent = app.post(&ann, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    let id = sent["message_id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 36);
    let expected = json!({
        "success": true, "message_id": id, "status": "submitted", "queue_id": sent["queue_id"], "recipient_count": 4,
    });
    assert_eq!(sent, expected, "Bob was listed twice and counts twice");
    assert!(sent["queue_id"].as_str().is_some_and(|queue_id| !queue_id.is_empty()));
    app.mail_server.settle().await;

    let inbox = app.get(&bob, "/mail/inbox").await.assert(StatusCode::OK);
    assert_eq!((&inbox["total"], &inbox["mailbox"]), (&json!(1), &json!("bob@example.org")));
    assert_eq!(inbox["messages"][0]["message_id"], format!("<{id}@example.org>"));
    let read = app.get(&bob, "/mailbox/bob@example.org/messages/1").await.assert(StatusCode::OK);
    assert_eq!(
        (&read["subject"], read["body"]["text"].as_str().map(str::trim), read["body"]["html"].as_str().map(str::trim)),
        (&json!("Grüße"), Some("Hello"), Some("<p>Hello</p>"))
    );
    assert_eq!(read["from"], json!({ "name": "Ann Lee", "email": "ann@example.org" }));
    assert_eq!((&read["headers"]["X-Campaign"], &read["headers"]["Bcc"]), (&json!("spring"), &json!(null)));
    assert_eq!(read["attachments"].as_array().unwrap().len(), 2);
    assert!(!read.to_string().contains("eve"), "Bcc recipients are not shown");
}

#[tokio::test]
async fn a_repetition_with_the_same_key_sends_nothing() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let first = send_with_key(&app, &ann, "job-17", &message()).await.assert(StatusCode::ACCEPTED);
    app.clock.advance(Duration::from_secs(60));
    assert_eq!(send_with_key(&app, &ann, "job-17", &message()).await.assert(StatusCode::ACCEPTED), first);
    assert_eq!(app.trouble.submitted(), 1);
    let other = with(|m| m["subject"] = json!("Other"));
    send_with_key(&app, &ann, "job-17", &other).await.assert_error(409, "IDEMPOTENCY_CONFLICT");
    assert_eq!(app.trouble.submitted(), 1);
    let by_bob = with(|m| m["from"] = json!("bob@example.org"));
    send_with_key(&app, &bob, "job-17", &by_bob).await.assert(StatusCode::ACCEPTED);
    app.clock.advance(Duration::from_secs(25 * 3600));
    let later = send_with_key(&app, &ann, "job-17", &message()).await.assert(StatusCode::ACCEPTED);
    assert_ne!(later["message_id"], first["message_id"]);
}

#[tokio::test]
async fn an_insane_key_is_refused() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for key in ["", "ü", &"x".repeat(256)] {
        let answer = send_with_key(&app, &ann, key, &message()).await;
        assert_eq!(answer.assert_invalid(), ["Idempotency-Key"], "{key:?}");
    }
    assert_eq!(app.trouble.submitted(), 0);
}

#[tokio::test]
async fn a_refusal_by_the_mail_server_is_told_and_recorded() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let reply = Reply::new(554, EnhancedCode::new(5, 7, 1), "Not today");
    for (error, said) in [
        (SubmitError::Refused(reply.clone()), "554 5.7.1 Not today"),
        (
            SubmitError::NoRecipients(vec![Refusal { recipient: "bob@example.org".parse().unwrap(), reply }]),
            "Not today",
        ),
        (SubmitError::Unavailable("connection refused".to_owned()), ""),
    ] {
        app.trouble.refuse_next(error);
        let text = app.post(&ann, "/mail/send", message()).await.assert_error(500, "SEND_FAILED");
        assert!(text.contains(said), "{text}");
        app.clock.advance(Duration::from_secs(1));
        let newest = &app.get(&ann, "/mail/sent?limit=1").await.json()["messages"][0];
        assert_eq!((&newest["status"], &newest["submitted_at"]), (&json!("failed"), &json!(null)));
    }
    assert_eq!(app.get(&ann, "/mail/sent").await.json()["total"], 3);
}

#[tokio::test]
async fn an_unknown_outcome_stays_open() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.trouble.refuse_next(SubmitError::OutcomeUnknown);
    app.post(&ann, "/mail/send", message()).await.assert_error(500, "SEND_FAILED");
    assert_eq!(app.get(&ann, "/mail/sent").await.json()["messages"][0]["status"], "pending");
}

#[tokio::test]
async fn a_large_message_goes_through() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let content = "QUJD".repeat(500_000);
    let body = with(|m| m["attachments"] = json!([{ "filename": "large.bin", "content": content }]));
    app.post(&ann, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    app.mail_server.settle().await;
    let read = app.get(&bob, "/mailbox/bob@example.org/messages/1").await.assert(StatusCode::OK);
    let expected = json!([{
        "index": 0, "filename": "large.bin", "content_type": "application/octet-stream", "size": 1_500_000,
        "content_id": null,
    }]);
    assert_eq!(read["attachments"], expected);
}
