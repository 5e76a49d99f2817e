//! `GET /mailbox/{email}/folders/{folder}/messages/{uid}/attachments`.

use axum::http::StatusCode;
use serde_json::json;

use super::{bobs_mailbox, refuses_strangers, refuses_unknown_folders, refuses_unknown_messages};

#[tokio::test]
async fn what_does_not_exist_is_refused() {
    refuses_strangers("/mailbox/{}/folders/INBOX/messages/1/attachments").await;
    refuses_unknown_folders("/mailbox/bob@example.org/folders/{}/messages/1/attachments").await;
    refuses_unknown_messages("/mailbox/bob@example.org/folders/INBOX/messages/{}/attachments").await;
}

#[tokio::test]
async fn they_are_those_of_the_message() {
    let (app, _, bob) = bobs_mailbox().await;
    let path = "/mailbox/bob@example.org/folders/INBOX/messages/1";
    let listed = app.get(&bob, &format!("{path}/attachments")).await.assert(StatusCode::OK);
    let read = app.get(&bob, path).await.assert(StatusCode::OK);
    let expected = json!({
        "success": true, "mailbox": "bob@example.org", "folder": "INBOX", "uid": 1, "total": 3,
        "attachments": read["attachments"],
    });
    assert_eq!(listed, expected);
    let none = "/mailbox/bob@example.org/folders/Projects%2F2026/messages/1/attachments";
    assert_eq!(app.get(&bob, none).await.assert(StatusCode::OK)["total"], 0);
}
