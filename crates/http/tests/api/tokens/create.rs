//! `POST /tokens`.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn a_user_makes_tokens_of_its_own_mailbox_only() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for body in [
        json!({ "name": "x", "token_type": "admin" }),
        json!({ "name": "x", "email": "bob@example.org" }),
        json!({ "name": "x", "email": "nobody@example.org" }),
    ] {
        app.post(&ann, "/tokens", body).await.assert_error(403, "ACCESS_DENIED");
    }
    assert_eq!(app.get(&ann, "/tokens").await.json()["total"], 1);
}

#[tokio::test]
async fn every_broken_rule_is_named_at_once() {
    let app = App::start().await;
    let body = json!({ "name": 1, "token_type": "root", "email": "x", "expires_at": "soon" });
    let fields = app.post(&app.admin, "/tokens", body).await.assert_invalid();
    assert_eq!(fields, ["name", "token_type", "email", "expires_at"]);
    let past = json!({ "name": "", "token_type": "admin", "email": "ann@example.org", "expires_at": "2026-11-20" });
    assert_eq!(app.post(&app.admin, "/tokens", past).await.assert_invalid(), ["name", "email", "expires_at"]);
    assert_eq!(app.post(&app.admin, "/tokens", json!({ "name": "x" })).await.assert_invalid(), ["email"]);
    let without_email = json!({ "name": "", "expires_at": "2026-11-20" });
    assert_eq!(app.post(&app.admin, "/tokens", without_email).await.assert_invalid(), ["name", "email", "expires_at"]);
    let long = json!({ "name": "x".repeat(201), "token_type": "admin" });
    let refused = app.post(&app.admin, "/tokens", long).await.assert(StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused["details"], json!([{ "field": "name", "message": "must have at most 200 characters" }]));
    let stranger = json!({ "name": "x", "email": "nobody@example.org" });
    app.post(&app.admin, "/tokens", stranger).await.assert_error(404, "USER_NOT_FOUND");
}

#[tokio::test]
async fn the_value_is_shown_once_and_works() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let body = json!({ "name": "Newsletter", "expires_at": "2026-11-20T12:15:30+01:00" });
    let mut created = app.post(&ann, "/tokens", body).await.assert(StatusCode::CREATED);
    let value = created["token"].take().as_str().unwrap().to_owned();
    assert!(value.starts_with("mapi_") && value.len() == 48, "{value}");
    let id = created["id"].as_i64().unwrap();
    let expected = json!({
        "success": true, "token": null, "id": id, "token_prefix": &value[..12], "token_type": "user",
        "email": "ann@example.org", "name": "Newsletter", "is_active": true,
        "created_at": "2026-11-20T10:15:30.000Z", "last_used_at": null, "expires_at": "2026-11-20T11:15:30.000Z",
    });
    assert_eq!(created, expected);
    for path in ["/tokens".to_owned(), format!("/tokens/{id}"), "/tokens/me".to_owned()] {
        let shown = app.get(&value, &path).await.assert(StatusCode::OK).to_string();
        assert!(!shown.contains(&value), "{path}");
    }
    app.clock.advance(Duration::from_secs(3600));
    app.get(&value, "/tokens/me").await.assert_error(401, "TOKEN_EXPIRED");
}

#[tokio::test]
async fn an_admin_makes_admin_tokens() {
    let app = App::start().await;
    let body = json!({ "name": "second", "token_type": "admin", "email": null });
    let created = app.post(&app.admin, "/tokens", body).await.assert(StatusCode::CREATED);
    assert_eq!((&created["token_type"], &created["email"]), (&json!("admin"), &json!(null)));
    app.get(created["token"].as_str().unwrap(), "/users").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn a_token_may_last_until_the_end_of_the_calendar() {
    let app = App::start().await;
    let body = json!({ "name": "for good", "token_type": "admin", "expires_at": "9999-12-31T23:59:59Z" });
    let created = app.post(&app.admin, "/tokens", body).await.assert(StatusCode::CREATED);
    assert_eq!(created["expires_at"], "9999-12-31T23:59:59.000Z");
    app.get(created["token"].as_str().unwrap(), "/tokens/me").await.assert(StatusCode::OK);
}
