//! `DELETE /permissions/{id}`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn only_admins_revoke_and_only_what_is_there() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ViewMailbox, "example.org").await;
    let id = app.get(&ann, "/permissions/mine").await.json()["permissions"][0]["id"].to_string();
    for id in [id.as_str(), "999", "x"] {
        app.delete(&ann, &format!("/permissions/{id}")).await.assert_error(403, "ACCESS_DENIED");
    }
    for id in ["999", "x", "-1", "99999999999999999999999"] {
        app.delete(&app.admin, &format!("/permissions/{id}")).await.assert_error(404, "PERMISSION_NOT_FOUND");
    }
    app.get(&ann, "/mailbox/bob@example.org/messages").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn what_was_revoked_no_longer_holds() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ViewMailbox, "example.org").await;
    app.get(&ann, "/mailbox/bob@example.org/messages").await.assert(StatusCode::OK);
    let id = app.get(&ann, "/permissions/mine").await.json()["permissions"][0]["id"].clone();
    let revoked = app.delete(&app.admin, &format!("/permissions/{id}")).await.assert(StatusCode::OK);
    assert_eq!((&revoked["success"], &revoked["id"]), (&json!(true), &id));
    app.get(&ann, "/mailbox/bob@example.org/messages").await.assert_error(403, "ACCESS_DENIED");
    app.delete(&app.admin, &format!("/permissions/{id}")).await.assert_error(404, "PERMISSION_NOT_FOUND");
}
