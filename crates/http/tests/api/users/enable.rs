//! `POST /users/{email}/enable`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn enabling_without_permission_changes_nothing() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.post_empty(&app.admin, "/users/bob@example.org/disable").await.assert(StatusCode::OK);
    app.post_empty(&ann, "/users/bob@example.org/enable").await.assert_error(403, "ACCESS_DENIED");
    assert_eq!(app.get(&app.admin, "/users/bob@example.org").await.json()["user"]["active"], false);
    app.post_empty(&app.admin, "/users/nobody@example.org/enable").await.assert_error(404, "USER_NOT_FOUND");
}

#[tokio::test]
async fn tokens_work_again_and_ended_sessions_do_not() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    let session = app.log_in("bob@example.org").await;
    app.post_empty(&ann, "/users/bob@example.org/disable").await.assert(StatusCode::OK);
    let enabled = app.post_empty(&ann, "/users/bob@example.org/enable").await.assert(StatusCode::OK);
    assert_eq!((&enabled["success"], &enabled["user"]["active"]), (&json!(true), &json!(true)));
    app.get(&bob, "/auth/me").await.assert(StatusCode::OK);
    app.get(&session, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    app.log_in("bob@example.org").await;
}
