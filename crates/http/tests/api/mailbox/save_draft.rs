//! `POST /mailbox/{email}/drafts`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::{Value, json};

use crate::support::App;

const PATH: &str = "/mailbox/bob@example.org/drafts";

/// Reads a saved draft.
async fn read(app: &App, token: &str, saved: &Value) -> Value {
    let (folder, uid) = (saved["folder"].as_str().unwrap(), &saved["uid"]);
    let path = format!("/mailbox/bob@example.org/messages/{uid}?folder={folder}");
    app.get(token, &path).await.assert(StatusCode::OK)
}

async fn saved(app: &App, token: &str, body: Value) -> Value {
    app.post(token, PATH, body).await.assert(StatusCode::CREATED)
}

async fn listed(app: &App, token: &str, folder: &str) -> Vec<Value> {
    let path = format!("/mailbox/bob@example.org/messages?folder={folder}");
    app.get(token, &path).await.assert(StatusCode::OK)["messages"].as_array().unwrap().clone()
}

#[tokio::test]
async fn strangers_and_readers_are_refused_before_the_body_is_read() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ViewMailbox, "example.org").await;
    app.grant("ann@example.org", Permission::SendMail, "example.org").await;
    app.post_text(&ann, PATH, "no JSON").await.assert_error(403, "ACCESS_DENIED");
    app.post(&ann, "/mailbox/no-address/drafts", json!({})).await.assert_error(403, "ACCESS_DENIED");
    app.post(&app.admin, "/mailbox/nobody@example.org/drafts", json!({})).await.assert_error(404, "MAILBOX_NOT_FOUND");
    app.trouble.go_down();
    app.post(&bob, PATH, json!({})).await.assert_error(500, "IMAP_ERROR");
}

#[tokio::test]
async fn every_wrong_member_is_named() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    let wrong = json!({
        "from": "nobody", "to": ["x"], "cc": ["a@b.example", "y"], "bcc": ["z"], "subject": "a\nb", "reply_to": "no",
        "headers": { "From": "x" }, "attachments": [{ "filename": "", "content": "SGk=" }],
    });
    let fields = app.post(&bob, PATH, wrong).await.assert_invalid();
    let expected =
        ["from", "reply_to", "to[0]", "cc[1]", "bcc[0]", "subject", "headers.From", "attachments[0].filename"];
    assert_eq!(fields, expected);
    for replaces in [json!("7"), json!(-1), json!(4_294_967_296_u64)] {
        let fields = app.post(&bob, PATH, json!({ "replaces": replaces })).await.assert_invalid();
        assert_eq!(fields, ["replaces"], "{replaces}");
    }
    assert_eq!(app.get(&bob, "/mailbox/bob@example.org/search?q=nobody&folder=*").await.json()["total"], 0);
}

#[tokio::test]
async fn a_draft_has_all_that_was_written() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    let draft = json!({
        "from": "Bob <office@example.org>", "to": ["Ann <ann@example.org>"], "cc": ["eve@example.net"],
        "bcc": ["\"Lee, Käthe\" <lee@example.net>"], "subject": "Plans", "body": { "text": "See", "html": "<p>See" },
        "reply_to": "bob@example.org", "headers": { "In-Reply-To": "<1@example.net>" },
        "attachments": [{ "filename": "plan.txt", "content": "SGVsbG8h", "content_type": "text/plain" }],
    });
    let answer = saved(&app, &bob, draft).await;
    let (folder, uid) = (answer["folder"].clone(), answer["uid"].clone());
    assert_eq!(answer, json!({ "success": true, "email": "bob@example.org", "folder": folder, "uid": uid }));
    let message = read(&app, &bob, &answer).await;
    let header = |name: &str| message["headers"][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(header("From"), "\"Bob\" <office@example.org>");
    assert_eq!(header("In-Reply-To"), "<1@example.net>");
    assert!(header("Bcc").contains("lee@example.net"), "{message}");
    assert_eq!(message["headers"]["DKIM-Signature"], Value::Null, "nothing is signed before it is sent");
    assert_eq!(message["attachments"][0]["filename"], "plan.txt");
    let mut flags: Vec<_> = message["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap()).collect();
    flags.sort_unstable();
    assert_eq!(flags, ["\\Draft", "\\Seen"]);
    assert_eq!(app.trouble.submitted(), 0);
}

#[tokio::test]
async fn a_draft_without_any_member_is_from_its_mailbox() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    for caller in [&bob, &app.admin] {
        let answer = saved(&app, caller, json!({})).await;
        let message = read(&app, &bob, &answer).await;
        assert_eq!((&message["from"]["email"], &message["to"]), (&json!("bob@example.org"), &json!([])));
    }
}

#[tokio::test]
async fn a_draft_replaces_a_draft_and_nothing_else() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    let first = saved(&app, &bob, json!({ "subject": "one" })).await;
    let folder = first["folder"].as_str().unwrap();
    let second = saved(&app, &bob, json!({ "subject": "two", "replaces": first["uid"] })).await;
    let subjects: Vec<_> = listed(&app, &bob, folder).await.into_iter().map(|one| one["subject"].clone()).collect();
    assert_eq!(subjects, ["two"]);
    app.append("bob@example.org", folder, "Subject: no draft\n\nStay.\n").await;
    let other = listed(&app, &bob, folder).await[0]["uid"].clone();
    saved(&app, &bob, json!({ "subject": "three", "replaces": other })).await;
    let uids: Vec<_> = listed(&app, &bob, folder).await.into_iter().map(|one| one["uid"].clone()).collect();
    assert!(uids.len() == 3 && uids.contains(&other) && uids.contains(&second["uid"]), "{uids:?}");
}

#[tokio::test]
async fn a_draft_beyond_the_limit_or_the_quota_is_refused() {
    let app = App::with(|settings, _| settings.max_message_bytes = 100_000).await;
    app.domain("example.org").await;
    let bob = app.user("bob@example.org").await;
    let long = |characters: usize| json!({ "body": { "text": "x ".repeat(characters / 2) } });
    let message = app.post(&bob, PATH, long(200_000)).await.assert_error(413, "PAYLOAD_TOO_LARGE");
    assert!(message.contains("100000 bytes"), "{message}");
    let quota = json!({ "quota_bytes": 20_480 });
    app.put(&app.admin, "/users/bob@example.org", quota).await.assert(StatusCode::OK);
    let message = app.post(&bob, PATH, long(40_000)).await.assert_error(413, "PAYLOAD_TOO_LARGE");
    assert!(message.contains("no room"), "{message}");
    saved(&app, &bob, long(100)).await;
}
