//! `GET /mailbox/{email}/folders`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use super::{bobs_mailbox, refuses_strangers};

#[tokio::test]
async fn strangers_are_refused() {
    refuses_strangers("/mailbox/{}/folders").await;
}

#[tokio::test]
async fn the_folders_and_what_they_hold() {
    let (app, ann, bob) = bobs_mailbox().await;
    let mut listed = app.get(&bob, "/mailbox/bob@example.org/folders").await.assert(StatusCode::OK);
    assert!(listed["folders"][0]["size"].take().as_u64() > Some(500));
    // A new mailbox has folders already, which depend on the mail server.
    let folders = listed["folders"].as_array_mut().unwrap();
    let empty: Vec<_> = folders.extract_if(.., |folder| folder["messages"] == 0).collect();
    let bobs = "bob@example.org".parse().unwrap();
    let there = app.mail_server.backend().mailboxes.folders(&bobs).await.unwrap();
    let there = there.iter().filter(|folder| folder.messages == 0);
    let there: Vec<_> = there
        .map(|folder| json!({ "name": folder.name.as_str(), "messages": 0, "unread": 0, "size": folder.size }))
        .collect();
    assert_eq!(empty, there);
    let expected = json!({ "success": true, "mailbox": "bob@example.org", "folders": [
        { "name": "INBOX", "messages": 1, "unread": 1, "size": null },
        { "name": "Projects/2026", "messages": 1, "unread": 1, "size": 29 },
    ] });
    assert_eq!(listed, expected);
    app.grant("ann@example.org", Permission::ViewMailbox, "example.org").await;
    app.get(&ann, "/mailbox/bob@example.org/folders").await.assert(StatusCode::OK);
}
