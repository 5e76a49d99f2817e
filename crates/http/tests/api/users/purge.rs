//! `DELETE /users/{email}/purge`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::App;

const PATH: &str = "/users/bob@example.org/purge";

#[tokio::test]
async fn purging_without_permission_removes_nothing() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.deliver("bob@example.org", "Subject: x\n\nx\n").await;
    app.grant("ann@example.org", Permission::ViewMailbox, "example.org").await;
    for token in [&ann, &bob] {
        app.delete(token, PATH).await.assert_error(403, "ACCESS_DENIED");
    }
    assert_eq!(app.get(&bob, "/mail/inbox").await.json()["total"], 1);
    app.delete(&app.admin, "/users/nobody@example.org/purge").await.assert_error(404, "USER_NOT_FOUND");
}

#[tokio::test]
async fn without_the_mailbox_server_nothing_is_called_purged() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.trouble.go_down();
    let message = app.delete(&app.admin, PATH).await.assert_error(500, "IMAP_ERROR");
    assert!(!message.contains("192.0.2.1"), "{message}");
}

#[tokio::test]
async fn every_folder_is_emptied_and_the_account_stays() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    for folder in ["INBOX", "INBOX", "Kept"] {
        app.append("bob@example.org", folder, "Subject: x\n\nx\n").await;
    }
    let folders = async || {
        let listed = app.get(&bob, "/mailbox/bob@example.org/folders").await.assert(StatusCode::OK);
        listed["folders"].as_array().unwrap().len()
    };
    let before = folders().await;
    let purged = app.delete(&ann, PATH).await.assert(StatusCode::OK);
    let message = purged["message"].as_str().unwrap();
    let expected = json!({
        "success": true, "message": message, "folders": before, "messages_removed": 3, "quota_used_bytes": 0,
    });
    assert_eq!(purged, expected);
    let user = app.get(&bob, "/users/me").await.assert(StatusCode::OK)["user"].clone();
    assert_eq!((&user["message_count"], &user["quota_used_bytes"]), (&json!(0), &json!(0)));
    assert_eq!(folders().await, before);
}
