//! `GET /mailbox/{email}/messages`, and the same with the folder in the path.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{bobs_mailbox, refuses_strangers, refuses_unknown_folders};
use crate::support::{App, EVE};

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
    // A folder name is decoded only once.
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
            "has_attachments": true, "recipient": "bob@example.org",
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

const INBOX: &str = "/mailbox/bob@example.org/messages";

#[tokio::test]
async fn a_cached_page_is_served_only_to_authorized_readers() {
    let (app, ann, bob) = bobs_mailbox().await;
    for _ in 0..2 {
        app.get(&bob, INBOX).await.assert(StatusCode::OK);
        app.get(&ann, INBOX).await.assert_error(403, "ACCESS_DENIED");
        app.get(&ann, "/mail/inbox?mailbox=bob@example.org").await.assert_error(403, "ACCESS_DENIED");
        app.get(&bob, &format!("{INBOX}?limit=0")).await.assert_invalid();
    }
    app.trouble.go_down();
    app.get(&bob, INBOX).await.assert_error(500, "IMAP_ERROR");
}

#[tokio::test]
async fn two_readers_both_see_what_changed_in_between() {
    let (app, _, bob) = bobs_mailbox().await;
    let admin = app.admin.clone();
    let both = async |expected: &[&str]| {
        for (token, path) in [(&bob, INBOX), (&admin, INBOX), (&bob, "/mail/inbox")] {
            let listed = app.get(token, path).await.assert(StatusCode::OK);
            let subject = |message: &Value| message["subject"].as_str().unwrap().to_owned();
            let subjects: Vec<_> = listed["messages"].as_array().unwrap().iter().map(subject).collect();
            assert_eq!(
                (subjects, &listed["total"]),
                (expected.iter().map(|&it| it.into()).collect(), &json!(expected.len()))
            );
        }
    };
    both(&["Die Grüße"]).await;
    assert_eq!(app.trouble.unchanged(), 2, "the others were shown what the first one was");
    app.deliver("bob@example.org", "Subject: News\n\nx\n").await;
    both(&["News", "Die Grüße"]).await;
    assert!(app.trouble.unchanged() >= 4);
    app.delete(&admin, "/users/bob@example.org/purge").await.assert(StatusCode::OK);
    both(&[]).await;
}

#[tokio::test]
async fn a_page_is_shown_as_it_was_asked_for() {
    let (app, _, bob) = bobs_mailbox().await;
    for (path, folder, limit, offset) in [
        ("", "INBOX", 50, 0),
        ("?limit=1", "INBOX", 1, 0),
        ("?limit=1&offset=1", "INBOX", 1, 1),
        ("?folder=Projects/2026", "Projects/2026", 50, 0),
        ("", "INBOX", 50, 0),
    ] {
        // A second request for an unchanged page returns the same page with every mail server.
        for _ in 0..2 {
            let listed = app.get(&bob, &format!("{INBOX}{path}")).await.assert(StatusCode::OK);
            let said = (&listed["folder"], &listed["limit"], &listed["offset"]);
            assert_eq!(said, (&json!(folder), &json!(limit), &json!(offset)));
            let first = listed["messages"].get(0).map(|message| &message["subject"]);
            let expected = json!(if folder == "INBOX" { "Die Grüße" } else { "Plans" });
            assert_eq!(first, (offset == 0).then_some(&expected));
        }
    }
    assert!(app.trouble.unchanged() >= 4);
}

#[tokio::test]
async fn without_memory_for_pages_each_is_written_anew() {
    let app = App::with(|_, http| http.kept_page_bytes = 0).await;
    app.domain("example.org").await;
    let bob = app.user("bob@example.org").await;
    app.deliver("bob@example.org", "Subject: News\n\nx\n").await;
    let first = app.get(&bob, INBOX).await.assert(StatusCode::OK);
    assert_eq!(app.get(&bob, INBOX).await.assert(StatusCode::OK), first);
    assert_eq!(app.trouble.unchanged(), 0);
}
