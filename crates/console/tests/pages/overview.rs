//! The overview.

use serde_json::json;

use crate::support::{ANN, Browser, ROOT, server};

#[tokio::test]
async fn a_new_server_shows_the_first_steps_and_a_used_one_does_not() {
    let app = mailapi_testkit::TestApp::start().await;
    let admin = Browser::with_token(&app, app.admin()).await;
    let html = admin.page("/console").await;
    assert!(html.contains("First steps") && html.contains("<a href=\"/console/domains\">Create a mail domain</a>"));
    let token = app.user("ann@a.example").await;
    let mail = json!({ "from": "ann@a.example", "to": ["ann@a.example"], "body": { "text": "x" } });
    assert_eq!(app.post(&token, "/mail/send", mail).await.status, 202);
    assert!(!admin.page("/console").await.contains("First steps"));
}

#[tokio::test]
async fn an_admin_sees_what_needs_attention_and_a_user_does_not() {
    let app = server().await;
    let admin = Browser::of(&app, ROOT).await.page("/console").await;
    assert!(admin.contains("a.example: the DNS records are not verified.") && admin.contains("In the queue"));
    let ann = Browser::of(&app, ANN).await.page("/console").await;
    assert!(!ann.contains("not verified") && !ann.contains("In the queue") && !ann.contains("First steps"));
}

#[tokio::test]
async fn what_was_sent_and_received_is_counted_and_listed() {
    let app = server().await;
    let token = app.user("carl@a.example").await;
    let mail = json!({ "from": "carl@a.example", "to": [ANN], "subject": "Lunch", "body": { "text": "x" } });
    assert_eq!(app.post(&token, "/mail/send", mail).await.status, 202);
    app.settle().await;
    app.service.roll_up_once().await.unwrap();
    let carl = Browser::of(&app, "carl@a.example").await.page("/console").await;
    assert!(carl.contains("<dt>Delivered</dt><dd>1</dd>") && carl.contains("Lunch"), "{carl}");
    assert!(carl.contains("<rect class=\"bar-sent\""));
    let ann = Browser::of(&app, ANN).await.page("/console").await;
    assert!(ann.contains("Lunch"), "{ann}");
    let bob = Browser::of(&app, "bob@a.example").await.page("/console").await;
    assert!(!bob.contains("Lunch"));
}
