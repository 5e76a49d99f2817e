//! `DELETE /mailbox/{email}/drafts/{uid}`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn what_is_no_draft_of_the_caller_stays() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let saved = app.post(&bob, "/mailbox/bob@example.org/drafts", json!({})).await.assert(StatusCode::CREATED);
    let path = format!("/mailbox/bob@example.org/drafts/{}", saved["uid"]);
    app.grant("ann@example.org", Permission::ViewMailbox, "example.org").await;
    app.delete(&ann, &path).await.assert_error(403, "ACCESS_DENIED");
    app.delete(&app.admin, "/mailbox/nobody@example.org/drafts/1").await.assert_error(404, "MAILBOX_NOT_FOUND");
    for uid in ["0", "999", "4294967295", "4294967296", "-1", "x", "+1"] {
        let path = format!("/mailbox/bob@example.org/drafts/{uid}");
        app.delete(&bob, &path).await.assert_error(404, "MESSAGE_NOT_FOUND");
    }
    let folder = saved["folder"].as_str().unwrap();
    app.append("bob@example.org", folder, "Subject: no draft\n\nStay.\n").await;
    let list = format!("/mailbox/bob@example.org/messages?folder={folder}");
    let other = app.get(&bob, &list).await.json()["messages"][0]["uid"].clone();
    let other = format!("/mailbox/bob@example.org/drafts/{other}");
    app.delete(&bob, &other).await.assert_error(404, "MESSAGE_NOT_FOUND");
    assert_eq!(app.get(&bob, &list).await.json()["total"], 2);
    app.trouble.go_down();
    app.delete(&bob, &path).await.assert_error(500, "IMAP_ERROR");
}

#[tokio::test]
async fn a_draft_is_deleted_once() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    for caller in [&bob, &app.admin] {
        let saved = app.post(&bob, "/mailbox/bob@example.org/drafts", json!({})).await.assert(StatusCode::CREATED);
        let (uid, folder) = (&saved["uid"], saved["folder"].as_str().unwrap());
        let path = format!("/mailbox/bob@example.org/drafts/{uid}");
        let deleted = app.delete(caller, &path).await.assert(StatusCode::OK);
        let message = "The draft was deleted.";
        assert_eq!(deleted, json!({ "success": true, "message": message, "email": "bob@example.org", "uid": uid }));
        let list = format!("/mailbox/bob@example.org/messages?folder={folder}");
        assert_eq!(app.get(&bob, &list).await.json()["total"], 0);
        app.delete(caller, &path).await.assert_error(404, "MESSAGE_NOT_FOUND");
    }
}
