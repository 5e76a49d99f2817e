//! `POST /mail/send`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_backend::{Refusal, SubmitError};
use mailapi_model::{Permission, Reply};
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
async fn sending_as_another_user_is_refused() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let as_bob = with(|m| m["from"] = json!("Ann <bob@example.org>"));
    app.post(&ann, "/mail/send", as_bob.clone()).await.assert_error(403, "SENDER_NOT_AUTHORIZED");
    let from_nowhere = with(|m| m["from"] = json!("ann@nowhere.example"));
    for caller in [&ann, &app.admin] {
        app.post(caller, "/mail/send", from_nowhere.clone()).await.assert_error(403, "DOMAIN_NOT_ALLOWED");
    }
    assert_eq!(app.trouble.submitted(), 0);
    assert_eq!(app.get(&app.admin, "/mail/sent").await.json()["total"], 0);
    app.post(&bob, "/mail/send", as_bob).await.assert(StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_delegate_sends_as_the_users_of_the_domain() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::SendMail, "example.org").await;
    let sent_as = async |from: &str| app.post(&ann, "/mail/send", with(|m| m["from"] = json!(from))).await;
    sent_as("bob@example.org").await.assert(StatusCode::ACCEPTED);
    sent_as("nobody@example.org").await.assert_error(403, "SENDER_NOT_AUTHORIZED");
    // The permission covers the domain's current users.
    app.user("nobody@example.org").await;
    sent_as("nobody@example.org").await.assert(StatusCode::ACCEPTED);
    app.delete(&app.admin, "/users/nobody@example.org").await.assert(StatusCode::OK);
    sent_as("nobody@example.org").await.assert_error(403, "SENDER_NOT_AUTHORIZED");
    let from_office = with(|m| m["from"] = json!("office@example.org"));
    app.post(&app.admin, "/mail/send", from_office).await.assert(StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_local_part_is_sent_as_given_and_compared_folded() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let forwarder = "SRS0=AbCd=2K=a.test=Eve@elsewhere.example";
    let body = with(|m| {
        m["from"] = json!("Ann Lee <Ann@example.org>");
        m["to"] = json!(["BOB@example.org", forwarder, forwarder.to_lowercase()]);
    });
    let sent = app.post(&ann, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    let id = sent["message_id"].as_str().unwrap();
    app.sync().await;

    let status = app.get(&ann, &format!("/mail/{id}/status")).await.assert(StatusCode::OK);
    let recipients: Vec<_> = status["recipients"].as_array().unwrap().iter().map(|one| &one["email"]).collect();
    assert_eq!(recipients, ["bob@example.org", forwarder], "a mailbox here is folded, and each recipient is one");
    let upper = forwarder.to_uppercase();
    let list = app.get(&ann, &format!("/mail/sent?from=ANN@example.org&recipient={upper}")).await.json();
    let shown = (&list["total"], &list["messages"][0]["from"], &list["messages"][0]["to"]);
    let to = json!(["bob@example.org", forwarder, forwarder.to_lowercase()]);
    assert_eq!(shown, (&json!(1), &json!("ann@example.org"), &to));
    let log = app.get(&app.admin, &format!("/mail/delivery-log?recipient={upper}")).await.json();
    assert_eq!(log["entries"][0]["recipient"], forwarder, "{log}");
    let read = app.get(&bob, "/mailbox/bob@example.org/messages/1").await.assert(StatusCode::OK);
    let people: Vec<_> = read["to"].as_array().unwrap().iter().map(|one| &one["email"]).collect();
    assert_eq!(people, ["bob@example.org", forwarder, &forwarder.to_lowercase()]);
    assert_eq!(read["from"]["email"], "ann@example.org");

    let from_office = with(|m| m["from"] = json!("SRS0=Ab@example.org"));
    app.post(&app.admin, "/mail/send", from_office).await.assert(StatusCode::ACCEPTED);
    app.sync().await;
    let read = app.get(&bob, "/mailbox/bob@example.org/messages/2").await.assert(StatusCode::OK);
    assert_eq!(read["from"]["email"], "SRS0=Ab@example.org", "no mailbox has this address");
    let log = app.get(&app.admin, "/mail/delivery-log?sender=srs0%3Dab@example.org").await.json();
    assert_eq!(log["entries"][0]["sender"], "SRS0=Ab@example.org", "{log}");
}

#[tokio::test]
async fn every_member_that_is_missing_or_of_a_wrong_type_is_named() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    assert_eq!(app.post(&ann, "/mail/send", json!({})).await.assert_invalid(), ["from", "to", "body"]);
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
    for recipients in [json!([]), json!(null)] {
        assert_eq!(app.post(&ann, "/mail/send", with(|m| m["to"] = recipients)).await.assert_invalid(), ["to"]);
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
    assert!(!read.to_string().contains("eve@elsewhere"), "Bcc recipients are not shown");
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

fn reply(said: &str) -> Reply {
    let (code, text) = said.split_once(' ').unwrap();
    let (enhanced, text) = text.split_once(' ').unwrap();
    Reply::new(code.parse().unwrap(), enhanced.parse().unwrap(), text)
}

fn refusals(said: &[(&str, &str)]) -> Vec<Refusal> {
    let refusal =
        |(recipient, said): &(&str, &str)| Refusal { recipient: recipient.parse().unwrap(), reply: reply(said) };
    said.iter().map(refusal).collect()
}

/// Checks that the send failed, and returns the message identifier.
fn failed(answer: &Answer, retryable: bool) -> String {
    answer.assert_error(500, "SEND_FAILED");
    let body = answer.json();
    assert_eq!(body["retryable"], retryable, "{body}");
    body["message_id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// Returns the state of the message and of each recipient.
async fn states(app: &App, token: &str, id: &str) -> (Value, Vec<Value>) {
    let status = app.get(token, &format!("/mail/{id}/status")).await.assert(StatusCode::OK);
    let recipients = status["recipients"].as_array().unwrap();
    (status["status"].clone(), recipients.iter().map(|recipient| recipient["status"].clone()).collect())
}

/// Returns recipient, status, code and reply of each entry of the delivery log, by recipient. Times do not define
/// an order: a line of the mail server may be older than an entry of our own.
async fn entries(app: &App, id: &str) -> Vec<[String; 4]> {
    let log = app.get(&app.admin, &format!("/mail/delivery-log?message_id={id}")).await.assert(StatusCode::OK);
    let words = ["recipient", "status", "dsn_code", "smtp_response"];
    let entry = |entry: &Value| words.map(|word| entry[word].as_str().unwrap_or_default().to_owned());
    let mut entries: Vec<_> = log["entries"].as_array().unwrap().iter().map(entry).collect();
    entries.sort();
    entries
}

#[tokio::test]
async fn a_refusal_of_the_whole_message_fails_and_is_recorded() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for (error, said, retryable) in [
        (SubmitError::Refused(reply("554 5.7.1 Not today")), "554 5.7.1 Not today", false),
        (SubmitError::Refused(reply("451 4.3.0 Later")), "451 4.3.0 Later", true),
        (SubmitError::Unavailable("connection refused".to_owned()), "connection refused", true),
    ] {
        app.trouble.refuse_next(error);
        let answer = send_with_key(&app, &ann, said, &message()).await;
        let id = failed(&answer, retryable);
        let text = answer.assert_error(500, "SEND_FAILED");
        assert!(text.contains(said), "{text}");
        let again = send_with_key(&app, &ann, said, &message()).await;
        assert_eq!(again.json(), answer.json(), "a repetition gets the same body");
        assert_eq!(states(&app, &ann, &id).await, (json!("failed"), vec![json!("failed")]));
        assert_eq!(entries(&app, &id).await, [[""; 4]; 0]);
        app.clock.advance(Duration::from_secs(1));
        let newest = &app.get(&ann, "/mail/sent?limit=1").await.json()["messages"][0];
        assert_eq!((&newest["status"], &newest["submitted_at"]), (&json!("failed"), &json!(null)));
    }
    assert_eq!(app.get(&ann, "/mail/sent").await.json()["total"], 3);
}

#[tokio::test]
async fn a_message_refused_for_all_bounces_and_is_no_error() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let to = with(|m| m["to"] = json!(["a@example.net", "b@example.net"]));
    app.trouble.refuse_next_for(refusals(&[
        ("a@example.net", "550 5.1.1 No such user"),
        ("b@example.net", "553 5.1.3 Bad address"),
    ]));
    let answer = send_with_key(&app, &ann, "typo", &to).await.assert(StatusCode::ACCEPTED);
    let id = answer["message_id"].as_str().unwrap();
    let expected = json!({
        "success": true, "message_id": id, "status": "submitted", "queue_id": id, "recipient_count": 2,
    });
    assert_eq!(answer, expected);
    assert_eq!(send_with_key(&app, &ann, "typo", &to).await.assert(StatusCode::ACCEPTED), answer);
    assert_eq!(states(&app, &ann, id).await, (json!("bounced"), vec![json!("bounced"), json!("bounced")]));
    let expected = [
        ["a@example.net", "bounced", "5.1.1", "550 5.1.1 No such user"],
        ["b@example.net", "bounced", "5.1.3", "553 5.1.3 Bad address"],
    ];
    assert_eq!(entries(&app, id).await, expected);
    assert_eq!(app.trouble.submitted(), 0);
    while app.service.roll_up_once().await.unwrap().more {}
    let stats = app.get(&app.admin, "/stats/delivery").await.assert(StatusCode::OK);
    let counted = ["total_sent", "rejected", "bounced"].map(|word| stats["summary"][word].as_u64().unwrap());
    assert_eq!(counted, [0, 2, 0], "{stats}");
}

#[tokio::test]
async fn an_unknown_mailbox_bounces_at_once() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let to_unknown = with(|m| m["to"] = json!(["nobody@example.org"]));
    let answer = app.post(&ann, "/mail/send", to_unknown).await.assert(StatusCode::ACCEPTED);
    let id = answer["message_id"].as_str().unwrap();
    assert_eq!(states(&app, &ann, id).await, (json!("bounced"), vec![json!("bounced")]));
    let [entry] = &entries(&app, id).await[..] else { panic!("one entry") };
    assert_eq!([&*entry[0], &*entry[1], &*entry[2]], ["nobody@example.org", "bounced", "5.1.1"]);
    app.sync().await;
    assert_eq!(entries(&app, id).await.len(), 1, "the mail server reports nothing of it");
}

#[tokio::test]
async fn a_recipient_refused_for_now_fails_and_the_rest_is_sent() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let to = with(|m| m["to"] = json!(["later@example.net", "bob@example.org", "no@example.net"]));
    app.trouble.refuse_next_for(refusals(&[
        ("later@example.net", "450 4.2.0 Greylisted"),
        ("no@example.net", "550 5.1.1 No such user"),
    ]));
    let answer = app.post(&ann, "/mail/send", to).await.assert(StatusCode::ACCEPTED);
    let id = answer["message_id"].as_str().unwrap();
    app.sync().await;
    let expected = ["failed", "sent", "bounced"].map(Value::from).to_vec();
    assert_eq!(states(&app, &ann, id).await, (json!("partial"), expected));
    let log = entries(&app, id).await;
    let refused = [
        ["later@example.net", "failed", "4.2.0", "450 4.2.0 Greylisted"],
        ["no@example.net", "bounced", "5.1.1", "550 5.1.1 No such user"],
    ];
    assert_eq!((log.len(), log[0][1].as_str()), (3, "sent"));
    assert_eq!(log[1..], refused);
    let of_status = |status: &str| format!("/mail/delivery-log?status={status}&queue_id={}", answer["queue_id"]);
    let failed = app.get(&app.admin, &of_status("failed").replace('"', "")).await.assert(StatusCode::OK);
    assert_eq!((&failed["total"], &failed["entries"][0]["sender"]), (&json!(1), &json!("ann@example.org")));
}

#[tokio::test]
async fn one_refusal_for_now_makes_the_send_retryable() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let to = with(|m| m["to"] = json!(["no@example.net", "later@example.net"]));
    let (for_good, for_now) = (("no@example.net", "550 5.1.1 No such user"), ("later@example.net", "450 4.2.0 Later"));
    let too = ("no@example.net", "451 4.3.0 Busy");
    for (refused, expected) in [([too, for_now], ["failed", "failed"]), ([for_good, for_now], ["bounced", "failed"])] {
        app.trouble.refuse_next_for(refusals(&refused));
        let key = format!("to {}", expected[0]);
        let answer = send_with_key(&app, &ann, &key, &to).await;
        let id = failed(&answer, true);
        assert_eq!(send_with_key(&app, &ann, &key, &to).await.json(), answer.json());
        let text = answer.assert_error(500, "SEND_FAILED");
        assert!(text.contains(" 45"), "it names a reply that may change: {text}");
        assert_eq!(states(&app, &ann, &id).await, (json!("failed"), expected.map(Value::from).to_vec()));
        let log = entries(&app, &id).await;
        let shown: Vec<[&str; 3]> = log.iter().map(|entry| [&*entry[0], &*entry[1], &*entry[3]]).collect();
        let said = [1, 0].map(|place| [refused[place].0, expected[place], refused[place].1]);
        assert_eq!(shown, said);
    }
    assert_eq!(app.trouble.submitted(), 0);
}

#[tokio::test]
async fn an_unknown_outcome_stays_open() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.trouble.refuse_next(SubmitError::OutcomeUnknown);
    let id = failed(&app.post(&ann, "/mail/send", message()).await, false);
    assert_eq!(states(&app, &ann, &id).await, (json!("pending"), vec![json!("pending")]));
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
