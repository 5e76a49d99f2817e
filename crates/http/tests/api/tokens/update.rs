//! `PUT /tokens/{id}`.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::json;

use crate::support::App;

async fn path(app: &App, token: &str) -> String {
    format!("/tokens/{}", app.get(token, "/tokens/me").await.assert(StatusCode::OK)["id"])
}

#[tokio::test]
async fn only_admins_change_tokens() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for path in [path(&app, &ann).await, path(&app, &app.admin).await, "/tokens/999".to_owned()] {
        app.put(&ann, &path, json!({ "name": 7 })).await.assert_error(403, "ACCESS_DENIED");
    }
    for id in ["999", "x", "-1"] {
        app.put(&app.admin, &format!("/tokens/{id}"), json!({})).await.assert_error(404, "TOKEN_NOT_FOUND");
    }
}

#[tokio::test]
async fn every_broken_rule_is_named_and_a_session_is_not_changed() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let anns = path(&app, &ann).await;
    let types = json!({ "name": 1, "is_active": "yes", "expires_at": "soon" });
    assert_eq!(app.put(&app.admin, &anns, types).await.assert_invalid(), ["name", "is_active", "expires_at"]);
    let values = json!({ "name": " ", "expires_at": "2026-11-20T10:15:30Z" });
    assert_eq!(app.put(&app.admin, &anns, values).await.assert_invalid(), ["name", "expires_at"]);
    let session = path(&app, &app.log_in("ann@example.org").await).await;
    assert_eq!(app.put(&app.admin, &session, json!({ "name": "x" })).await.assert_invalid(), ["id"]);
}

#[tokio::test]
async fn what_is_absent_stays_and_null_lifts_the_end() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let anns = path(&app, &ann).await;
    let put = async |body| app.put(&app.admin, &anns, body).await.assert(StatusCode::OK);
    let ends = put(json!({ "expires_at": "2026-11-20T12:15:30+01:00" })).await;
    assert_eq!((&ends["success"], &ends["expires_at"]), (&json!(true), &json!("2026-11-20T11:15:30.000Z")));
    let named = put(json!({ "name": "Old" })).await;
    assert_eq!((&named["name"], &named["expires_at"]), (&json!("Old"), &ends["expires_at"]));
    app.clock.advance(Duration::from_secs(3600));
    app.get(&ann, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    assert_eq!(put(json!({ "expires_at": null })).await["expires_at"], json!(null));
    app.get(&ann, "/auth/me").await.assert(StatusCode::OK);
    assert_eq!(put(json!({ "is_active": false })).await["is_active"], false);
    app.get(&ann, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    put(json!({ "is_active": true })).await;
    app.get(&ann, "/auth/me").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn the_last_way_in_for_an_admin_stays() {
    let app = App::start().await;
    let last = path(&app, &app.admin).await;
    assert_eq!(app.put(&app.admin, &last, json!({ "is_active": false })).await.assert_invalid(), ["id"]);
    let end = json!({ "expires_at": "2026-11-21" });
    assert_eq!(app.put(&app.admin, &last, end).await.assert_invalid(), ["id"]);
    app.put(&app.admin, &last, json!({ "name": "main" })).await.assert(StatusCode::OK);

    // An expired token grants no access: it may be disabled, and does not count beside the last active one.
    let body = json!({ "name": "short", "token_type": "admin", "expires_at": "2026-11-20T11:15:30Z" });
    let short = app.post(&app.admin, "/tokens", body).await.assert(StatusCode::CREATED)["id"].to_string();
    app.clock.advance(Duration::from_secs(3600));
    let short = format!("/tokens/{short}");
    assert_eq!(app.put(&app.admin, &last, json!({ "is_active": false })).await.assert_invalid(), ["id"]);
    assert_eq!(app.put(&app.admin, &short, json!({ "is_active": false })).await.json()["is_active"], false);
}
