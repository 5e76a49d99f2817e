//! `GET /auth/me`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn a_session_sees_its_user_and_the_users_permissions() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.get("", "/auth/me").await.assert_error(401, "NO_API_TOKEN");
    let session = app.log_in("ann@example.org").await;
    app.grant("ann@example.org", Permission::ViewStats, "example.org").await;
    let me = app.get(&app.log_in("ann@example.org").await, "/auth/me").await.assert(StatusCode::OK);
    let expected = json!({
        "success": true, "email": "ann@example.org", "name": "", "token_type": "user", "is_session": true,
        "expires_at": "2026-11-20T18:15:30.000Z",
        "permissions": [{ "permission": "view_stats", "domain": "example.org" }],
    });
    assert_eq!(me, expected);
    app.get(&session, "/auth/me").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn an_api_token_is_shown_as_not_a_session() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let me = app.get(&ann, "/auth/me").await.assert(StatusCode::OK);
    assert_eq!(
        (&me["is_session"], &me["email"], &me["name"]),
        (&json!(false), &json!("ann@example.org"), &json!("test"))
    );
    let admin = app.get(&app.admin, "/auth/me").await.assert(StatusCode::OK);
    let expected = json!({
        "success": true, "email": null, "name": "test", "token_type": "admin", "is_session": false, "expires_at": null,
        "permissions": [],
    });
    assert_eq!(admin, expected);
}
