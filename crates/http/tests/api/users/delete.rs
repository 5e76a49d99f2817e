//! `DELETE /users/{email}`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::{App, PASSWORD};

#[tokio::test]
async fn deleting_without_permission_removes_nothing() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    let (root, ann) = (app.user("root@example.org").await, app.user("ann@example.org").await);
    for email in ["ann@example.org", "nobody@example.org", "nobody"] {
        app.delete(&ann, &format!("/users/{email}")).await.assert_error(403, "ACCESS_DENIED");
    }
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    app.delete(&ann, "/users/root@example.org").await.assert_error(403, "ACCESS_DENIED");
    app.get(&root, "/users/me").await.assert(StatusCode::OK);
    app.delete(&ann, "/users/nobody@example.org").await.assert_error(404, "USER_NOT_FOUND");
}

#[tokio::test]
async fn a_deleted_user_leaves_nothing_behind() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    app.grant("bob@example.org", Permission::ViewStats, "example.org").await;
    let session = app.log_in("bob@example.org").await;
    app.deliver("bob@example.org", "Subject: x\n\nx\n").await;
    let deleted = app.delete(&ann, "/users/Bob@example.org").await.assert(StatusCode::OK);
    assert_eq!((&deleted["success"], &deleted["email"]), (&json!(true), &json!("bob@example.org")));
    for token in [&bob, &session] {
        app.get(token, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    }
    app.get(&app.admin, "/mailbox/bob@example.org/messages").await.assert_error(404, "MAILBOX_NOT_FOUND");
    assert_eq!(app.get(&app.admin, "/permissions?email=bob@example.org").await.json()["total"], 0);

    let again = json!({ "email": "bob@example.org", "password": PASSWORD });
    app.post(&app.admin, "/users", again).await.assert(StatusCode::CREATED);
    app.get(&bob, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    assert_eq!(app.get(&app.admin, "/mailbox/bob@example.org/messages").await.json()["total"], 0);
}

#[tokio::test]
async fn a_user_whose_mail_cannot_be_removed_now_stays() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    app.trouble.go_down();
    let message = app.delete(&app.admin, "/users/bob@example.org").await.assert_error(500, "IMAP_ERROR");
    assert!(!message.contains("192.0.2.1"), "{message}");
    assert_eq!(app.get(&bob, "/users/me").await.assert(StatusCode::OK)["user"]["email"], "bob@example.org");
}
