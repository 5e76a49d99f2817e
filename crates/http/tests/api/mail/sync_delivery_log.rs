//! `GET /mail/delivery-log/sync`.

use axum::http::StatusCode;
use serde_json::json;

use crate::support::InMemoryApp;

#[tokio::test]
async fn it_is_for_admins() {
    let (app, ann, _) = InMemoryApp::with_ann_and_bob().await;
    app.get(&ann, "/mail/delivery-log/sync").await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn what_is_new_is_read_once() {
    let (app, ann, _) = InMemoryApp::with_ann_and_bob().await;
    let sync = async || app.get(&app.admin, "/mail/delivery-log/sync").await.assert(StatusCode::OK);
    let nothing =
        json!({ "success": true, "lines_read": 0, "entries_added": 0, "messages_updated": 0, "last_event_at": null });
    assert_eq!(sync().await, nothing);
    let to = ["bob@example.org", "eve@elsewhere.example"];
    let body = json!({ "from": "ann@example.org", "to": to, "body": { "text": "Hello" } });
    app.post(&ann, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    let expected = json!({
        "success": true, "lines_read": 2, "entries_added": 2, "messages_updated": 1,
        "last_event_at": "2026-11-20T10:15:30.000Z",
    });
    assert_eq!(sync().await, expected);
    assert_eq!(sync().await["entries_added"], 0);
}
