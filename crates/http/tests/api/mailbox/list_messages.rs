//! `GET /mailbox/{email}/messages`, and the same with the folder in the path.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{bobs_mailbox, refuses_strangers, refuses_unknown_folders};
use crate::support::EVE;

#[tokio::test]
async fn strangers_are_refused() {
    refuses_strangers("/mailbox/{}/messages").await;
    refuses_strangers("/mailbox/{}/folders/INBOX/messages").await;
}

#[tokio::test]
async fn unknown_folders_are_refused() {
    refuses_unknown_folders("/mailbox/bob@example.org/messages?folder={}").await;
    refuses_unknown_folders("/mailbox/bob@example.org/folders/{}/messages").await;
    let (app, _, bob) = bobs_mailbox().await;
    app.get(&bob, "/mailbox/bob@example.org/messages?folder=").await.assert_error(400, "INVALID_FOLDER");
}

#[tokio::test]
async fn a_page_that_is_none_is_refused() {
    let (app, _, bob) = bobs_mailbox().await;
    for path in ["/mailbox/bob@example.org/messages", "/mailbox/bob@example.org/folders/INBOX/messages"] {
        let fields = app.get(&bob, &format!("{path}?limit=0&offset=x")).await.assert_invalid();
        assert_eq!(fields, ["limit", "offset"]);
    }
}

#[tokio::test]
async fn both_forms_answer_the_same() {
    let (app, _, bob) = bobs_mailbox().await;
    for (query, path) in [
        ("messages", "folders/INBOX/messages"),
        ("messages?folder=inbox&limit=1", "folders/InBox/messages?limit=1"),
        ("messages?folder=Projects%2F2026", "folders/Projects%2F2026/messages"),
        ("messages?folder=Projects/2026&offset=1", "folders/Projects%2f2026/messages?offset=1"),
    ] {
        let get = async |path| app.get(&bob, &format!("/mailbox/bob@example.org/{path}")).await.assert(StatusCode::OK);
        assert_eq!(get(query).await, get(path).await, "{query}");
    }
    // A name is decoded once.
    app.append("bob@example.org", "100%2F", "Subject: Odd\n\nx\n").await;
    for path in ["messages?folder=100%252F", "folders/100%252F/messages"] {
        let listed = app.get(&bob, &format!("/mailbox/bob@example.org/{path}")).await.assert(StatusCode::OK);
        assert_eq!((&listed["folder"], &listed["total"]), (&json!("100%2F"), &json!(1)));
    }
}

#[tokio::test]
async fn a_message_has_its_shape() {
    let (app, _, bob) = bobs_mailbox().await;
    let mut listed = app.get(&bob, "/mailbox/bob@example.org/messages").await.assert(StatusCode::OK);
    assert!(listed["messages"][0]["size"].take().as_u64() > Some(500));
    let expected = json!({
        "success": true, "mailbox": "bob@example.org", "folder": "INBOX", "total": 1, "limit": 50, "offset": 0,
        "messages": [{
            "uid": 1, "message_id": "<one@example.org>", "from": { "name": "Ann Lee", "email": "ann@example.org" },
            "to": [{ "name": "Bob", "email": "bob@example.org" }, { "name": "", "email": "eve@example.net" }],
            "subject": "Die Grüße", "date": "2026-11-20T08:00:00.000Z", "size": null, "flags": [],
            "has_attachments": true,
        }],
    });
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn pages_go_from_the_newest_to_the_oldest() {
    let (app, ann, _) = bobs_mailbox().await;
    let messages: Vec<_> = (1..=250).map(|n| format!("Subject: {n}\r\n\r\nx\r\n")).collect();
    let messages: Vec<_> = messages.iter().map(String::as_bytes).collect();
    app.mail_server.deliver(EVE, "ann@example.org", &messages).await;
    let uids = async |query: &str| -> Vec<u64> {
        let listed = app.get(&ann, &format!("/mailbox/ann@example.org/messages{query}")).await;
        let listed = listed.assert(StatusCode::OK);
        assert_eq!(listed["total"], 250);
        let uid = |message: &Value| message["uid"].as_u64().unwrap();
        listed["messages"].as_array().unwrap().iter().map(uid).collect()
    };
    assert_eq!(uids("").await, (201..=250).rev().collect::<Vec<_>>());
    assert_eq!(uids("?limit=1000").await, (51..=250).rev().collect::<Vec<_>>());
    assert_eq!(uids("?limit=3&offset=248").await, [2, 1]);
    assert!(uids("?offset=99999999999999999999").await.is_empty());
}
