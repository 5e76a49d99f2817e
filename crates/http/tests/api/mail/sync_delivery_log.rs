//! `GET /mail/delivery-log/sync`.

use axum::http::StatusCode;
use serde_json::json;

use crate::support::{App, EVE, is_about};

#[tokio::test]
async fn it_is_for_admins() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.get(&ann, "/mail/delivery-log/sync").await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn what_is_new_is_read_once() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    // The log of a new mail server may contain events already.
    app.sync().await;
    let nothing =
        json!({ "success": true, "lines_read": 0, "entries_added": 0, "messages_updated": 0, "last_event_at": null });
    assert_eq!(app.sync().await, nothing);
    let to = ["bob@example.org", EVE];
    let body = json!({ "from": "ann@example.org", "to": to, "body": { "text": "Hello" } });
    app.post(&ann, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    let now = app.now();
    let mut read = app.sync().await;
    assert!(read["lines_read"].take().as_u64() >= Some(2), "{read}");
    assert!(is_about(&read["last_event_at"].take(), now), "{read}");
    let expected = json!({
        "success": true, "lines_read": null, "entries_added": 2, "messages_updated": 1, "last_event_at": null,
    });
    assert_eq!(read, expected);
    assert_eq!(app.sync().await["entries_added"], 0);
}
