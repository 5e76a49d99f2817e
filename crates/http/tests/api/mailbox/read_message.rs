//! `GET /mailbox/{email}/messages/{uid}`, and the same with the folder in the path.

use axum::http::StatusCode;
use serde_json::json;

use super::{bobs_mailbox, refuses_strangers, refuses_unknown_folders, refuses_unknown_messages};

#[tokio::test]
async fn strangers_are_refused() {
    refuses_strangers("/mailbox/{}/messages/1").await;
    refuses_strangers("/mailbox/{}/folders/INBOX/messages/1").await;
}

#[tokio::test]
async fn what_does_not_exist_is_refused() {
    refuses_unknown_folders("/mailbox/bob@example.org/messages/1?folder={}").await;
    refuses_unknown_folders("/mailbox/bob@example.org/folders/{}/messages/1").await;
    refuses_unknown_messages("/mailbox/bob@example.org/messages/{}").await;
    refuses_unknown_messages("/mailbox/bob@example.org/folders/INBOX/messages/{}").await;
}

#[tokio::test]
async fn a_message_has_its_shape() {
    let (app, _, bob) = bobs_mailbox().await;
    let mut read = app.get(&bob, "/mailbox/bob@example.org/messages/1").await.assert(StatusCode::OK);
    let by_path = app.get(&bob, "/mailbox/bob@example.org/folders/INBOX/messages/1").await.assert(StatusCode::OK);
    assert_eq!(read, by_path);
    let received = read["headers"]["Received"].as_str().unwrap();
    assert!(received.ends_with("by one\nby two"), "{received}");
    assert_eq!(read["headers"]["Subject"], "Die Grüße");
    read["headers"].take();
    let expected = json!({
        "success": true, "uid": 1, "message_id": "<one@example.org>",
        "from": { "name": "Ann Lee", "email": "ann@example.org" },
        "to": [{ "name": "Bob", "email": "bob@example.org" }, { "name": "", "email": "eve@example.net" }],
        "cc": [{ "name": "", "email": "office@example.org" }], "subject": "Die Grüße",
        "date": "2026-11-20T08:00:00.000Z", "headers": null,
        "body": { "text": "See the minutes of Schönberg.", "html": null },
        "attachments": [
            { "index": 0, "filename": "evil \"page\".html", "content_type": "text/html", "size": 25, "content_id": null },
            { "index": 1, "filename": "Ü.txt", "content_type": "text/plain", "size": 5, "content_id": null },
            { "index": 2, "filename": "Ü.txt", "content_type": "application/pdf", "size": 6, "content_id": null },
        ],
        "flags": [], "recipient": "bob@example.org",
    });
    assert_eq!(read, expected);
}

#[tokio::test]
async fn a_long_text_is_escaped_while_it_is_sent() {
    let (app, _, bob) = bobs_mailbox().await;
    // One body below the length up to which the mail server opens bodies at once, and one above.
    for (uid, lines) in [(2, 1_000), (3, 5_000)] {
        let text = format!("{}☃\n", "\u{1}\u{7f}\"é".repeat(12)).repeat(lines);
        let header = "Subject: Control\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\n";
        app.deliver("bob@example.org", &format!("{header}{text}")).await;
        let path = format!("/mailbox/bob@example.org/messages/{uid}");
        let answer = app.get(&bob, &path).await;
        assert_eq!(answer.headers.get("content-length"), None, "the answer is written while it is sent");
        let read = answer.assert(StatusCode::OK);
        let shown = read["body"]["text"].as_str().unwrap();
        assert_eq!(shown.trim_end().replace('\r', ""), text.trim_end().replace('\r', ""));
        assert_eq!((&read["subject"], &read["body"]["html"]), (&json!("Control"), &json!(null)));
    }
}

#[tokio::test]
async fn a_message_without_anything_is_a_message() {
    let (app, _, bob) = bobs_mailbox().await;
    app.append("bob@example.org", "Empty", "").await;
    let read = app.get(&bob, "/mailbox/bob@example.org/messages/1?folder=Empty").await.assert(StatusCode::OK);
    let missing = json!({ "name": "", "email": "" });
    assert_eq!(read["recipient"], json!(null), "it was not delivered");
    assert_eq!((&read["from"], &read["to"], &read["message_id"]), (&missing, &json!([]), &json!("")));
}
