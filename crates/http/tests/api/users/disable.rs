//! `POST /users/{email}/disable`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::{App, PASSWORD};

#[tokio::test]
async fn disabling_without_permission_changes_nothing() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    let (root, ann) = (app.user("root@example.org").await, app.user("ann@example.org").await);
    for email in ["ann@example.org", "nobody@example.org", "nobody"] {
        app.post_empty(&ann, &format!("/users/{email}/disable")).await.assert_error(403, "ACCESS_DENIED");
    }
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    app.post_empty(&ann, "/users/root@example.org/disable").await.assert_error(403, "ACCESS_DENIED");
    app.get(&root, "/users/me").await.assert(StatusCode::OK);
    app.post_empty(&ann, "/users/nobody@example.org/disable").await.assert_error(404, "USER_NOT_FOUND");
}

#[tokio::test]
async fn a_disabled_user_is_out_and_its_mail_still_arrives() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let session = app.log_in("bob@example.org").await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    let disabled = app.post_empty(&ann, "/users/bob@example.org/disable").await.assert(StatusCode::OK);
    assert_eq!((&disabled["success"], &disabled["user"]["active"]), (&json!(true), &json!(false)));
    for token in [&bob, &session] {
        app.get(token, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    }
    let password = json!({ "email": "bob@example.org", "password": PASSWORD });
    app.post("", "/auth/login", password).await.assert_error(401, "INVALID_CREDENTIALS");
    let message = json!({ "from": "ann@example.org", "to": ["bob@example.org"], "body": { "text": "x" } });
    app.post(&ann, "/mail/send", message).await.assert(StatusCode::ACCEPTED);
    app.mail_server.settle().await;
    assert_eq!(app.get(&app.admin, "/mailbox/bob@example.org/messages").await.json()["total"], 1);
    assert_eq!(app.get(&app.admin, "/users?active=false").await.json()["total"], 1);
}
