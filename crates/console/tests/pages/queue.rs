//! The queue.

use mailapi_testkit::TestApp;
use serde_json::json;

use crate::support::{ANN, Browser, ROOT, server};

/// Sends a message that the next mail server defers; returns its queue id.
async fn deferred(app: &TestApp) -> String {
    app.mail_server.sink.refuse("late@b.example", &["450 4.2.0 Come again later"; 9]);
    let token = app.user("carl@a.example").await;
    let mail = json!({ "from": "carl@a.example", "to": ["late@b.example"], "body": { "text": "x" } });
    assert_eq!(app.post(&token, "/mail/send", mail).await.status, 202);
    app.settle().await;
    let listed = app.get(app.admin(), "/queue").await.expect(200);
    listed["messages"][0]["queue_id"].as_str().expect("a waiting message").to_owned()
}

#[tokio::test]
async fn a_user_neither_sees_nor_changes_the_queue() {
    let app = server().await;
    let id = deferred(&app).await;
    let mut ann = Browser::of(&app, ANN).await;
    assert_eq!(ann.get("/console/queue").await.status, 403);
    assert_eq!(ann.post(&format!("/console/queue/{id}"), &[("act", "cancel")]).await.status, 403);
    assert_eq!(app.get(app.admin(), "/queue").await.expect(200)["total"], 1);
}

#[tokio::test]
async fn a_message_is_held_released_and_cancelled() {
    let app = server().await;
    let id = deferred(&app).await;
    let mut root = Browser::of(&app, ROOT).await;
    let page = root.page("/console/queue").await;
    assert!(page.contains(&id) && page.contains("Come again later") && page.contains("badge-deferred"), "{page}");
    let path = format!("/console/queue/{id}");
    for (act, note, shown) in
        [("hold", "held", "badge-held"), ("release", "released", "Retry"), ("cancel", "cancelled", "No messages.")]
    {
        let answer = root.post(&path, &[("act", act)]).await;
        assert_eq!((answer.status, answer.header("location")), (303, &*format!("/console/queue?done={note}")), "{act}");
        let page = root.page(answer.header("location")).await;
        assert!(page.contains(shown), "{act}: {page}");
        app.settle().await;
    }
    assert_eq!(root.post(&path, &[("act", "retry")]).await.status, 404);
    assert_eq!(root.post(&path, &[("act", "burn")]).await.status, 404);
}
