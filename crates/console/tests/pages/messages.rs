//! Messages sent, and the timeline of one.

use serde_json::json;

use crate::support::{ANN, Browser, server};

#[tokio::test]
async fn a_message_of_another_mailbox_is_not_found() {
    let app = server().await;
    let mail = json!({ "from": ANN, "to": ["bob@a.example"], "subject": "Private", "body": { "text": "x" } });
    let sent = app.post(app.admin(), "/mail/send", mail).await.expect(202);
    let bob = Browser::of(&app, "bob@a.example").await;
    let path = format!("/console/messages/{}", sent["message_id"].as_str().unwrap());
    assert_eq!(bob.get(&path).await.status, 404);
    assert_eq!(bob.get("/console/messages/no-id").await.status, 404);
    assert!(!bob.page("/console/messages").await.contains("Private"));
}

#[tokio::test]
async fn an_invalid_filter_is_named() {
    let app = server().await;
    let answer = Browser::of(&app, ANN).await.get("/console/messages?status=lost&start_date=never").await;
    assert_eq!(answer.status, 422);
    let html = answer.text();
    assert!(html.contains("<dt>status</dt>") && html.contains("<dt>start_date</dt>"), "{html}");
}

#[tokio::test]
async fn a_message_is_listed_filtered_and_shown_with_its_evidence() {
    let app = server().await;
    let token = app.user("carl@a.example").await;
    let subject = "<b>Tea & \"cake\"</b>";
    let mail = json!({ "from": "carl@a.example", "to": [ANN], "subject": subject, "body": { "text": "x" } });
    let id = app.post(&token, "/mail/send", mail).await.expect(202)["message_id"].as_str().unwrap().to_owned();
    app.settle().await;
    let carl = Browser::of(&app, "carl@a.example").await;
    let list = carl.page("/console/messages?status=sent").await;
    assert!(list.contains(&format!("/console/messages/{id}")));
    assert!(list.contains("&#60;b&#62;Tea &#38; &#34;cake&#34;&#60;/b&#62;"), "{list}");
    assert!(!carl.page("/console/messages?status=bounced").await.contains(&id));
    let shown = carl.page(&format!("/console/messages/{id}")).await;
    for text in ["message.accepted", "message.delivered", "badge-sent", ANN, "<dt>evidence</dt>"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[tokio::test]
async fn a_long_list_has_pages() {
    let app = server().await;
    let token = app.user("carl@a.example").await;
    for number in 0..51 {
        let subject = format!("Number {number:02}");
        let mail = json!({ "from": "carl@a.example", "to": [ANN], "subject": subject, "body": { "text": "x" } });
        assert_eq!(app.post(&token, "/mail/send", mail).await.status, 202);
    }
    let carl = Browser::of(&app, "carl@a.example").await;
    let first = carl.page("/console/messages?from=carl%40a.example").await;
    assert!(first.contains("1–50 of 51") && first.contains("Number 50") && !first.contains("Number 00"));
    assert!(first.contains("from=carl%40a.example&#38;offset=50"), "{first}");
    let second = carl.page("/console/messages?from=carl%40a.example&offset=50").await;
    assert!(second.contains("51–51 of 51") && second.contains("Number 00"));
}
