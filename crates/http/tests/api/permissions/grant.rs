//! `POST /permissions`.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::App;

fn grant(email: &str, permission: &str, domain: &str) -> Value {
    json!({ "email": email, "permission": permission, "domain": domain })
}

#[tokio::test]
async fn only_admins_grant_and_others_are_refused_before_parsing() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", mailapi_model::Permission::ManageUsers, "example.org").await;
    let own = grant("ann@example.org", "view_mailbox", "example.org");
    app.post(&ann, "/permissions", own).await.assert_error(403, "ACCESS_DENIED");
    app.post_text(&ann, "/permissions", "no JSON").await.assert_error(403, "ACCESS_DENIED");
    assert_eq!(app.get(&ann, "/permissions/mine").await.json()["total"], 1);
}

#[tokio::test]
async fn what_is_unknown_is_refused() {
    let (app, ..) = App::with_ann_and_bob().await;
    let post = async |body| app.post(&app.admin, "/permissions", body).await;
    assert_eq!(post(json!({})).await.assert_invalid(), ["email", "permission", "domain"]);
    assert_eq!(post(grant("ann", "rule_the_world", "a b")).await.assert_invalid(), ["email", "permission", "domain"]);
    post(grant("nobody@example.org", "view_stats", "example.org")).await.assert_error(404, "USER_NOT_FOUND");
    post(grant("ann@example.org", "view_stats", "nowhere.example")).await.assert_error(404, "DOMAIN_NOT_FOUND");
    assert_eq!(app.get(&app.admin, "/permissions").await.json()["total"], 0);
}

#[tokio::test]
async fn admins_are_granted_nothing() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    app.user("root@example.org").await;
    let body = grant("Root@example.org", "view_stats", "example.org");
    assert_eq!(app.post(&app.admin, "/permissions", body).await.assert_invalid(), ["email"]);
}

#[tokio::test]
async fn a_permission_holds_at_once_and_is_granted_once() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.get(&ann, "/mailbox/bob@example.org/messages").await.assert_error(403, "ACCESS_DENIED");
    let body = grant("Ann@Example.org", "view_mailbox", "EXAMPLE.org");
    let mut granted = app.post(&app.admin, "/permissions", body.clone()).await.assert(StatusCode::CREATED);
    assert!(granted["permission"]["id"].take().is_i64());
    let expected = json!({ "success": true, "permission": {
        "id": null, "email": "ann@example.org", "permission": "view_mailbox", "domain": "example.org",
        "granted_by": "test", "granted_at": "2026-11-20T10:15:30.000Z",
    } });
    assert_eq!(granted, expected);
    app.get(&ann, "/mailbox/bob@example.org/messages").await.assert(StatusCode::OK);
    app.post(&app.admin, "/permissions", body).await.assert_error(409, "PERMISSION_EXISTS");
}
