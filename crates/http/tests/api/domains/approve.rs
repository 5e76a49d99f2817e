//! `POST /domains/{domain}/approve`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::{App, PASSWORD};

#[tokio::test]
async fn only_admins_approve_and_only_what_is_there() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageDomains, "example.org").await;
    for name in ["example.org", "nowhere.example", "a%20b"] {
        app.post_empty(&ann, &format!("/domains/{name}/approve")).await.assert_error(403, "ACCESS_DENIED");
    }
    for name in ["nowhere.example", "a%20b"] {
        app.post_empty(&app.admin, &format!("/domains/{name}/approve")).await.assert_error(404, "DOMAIN_NOT_FOUND");
    }
}

#[tokio::test]
async fn approval_activates_a_domain_and_gives_it_a_key_once() {
    let app = App::start().await;
    let request = json!({ "domain": "new.example", "email": "ann@new.example", "password": PASSWORD, "name": "Ann" });
    app.post("", "/auth/signup", request).await.assert(StatusCode::CREATED);
    app.get(&app.admin, "/domains/new.example/dkim").await.assert_error(404, "NOT_FOUND");
    let approved = app.post_empty(&app.admin, "/domains/NEW.example/approve").await.assert(StatusCode::OK);
    let message = approved["message"].as_str().unwrap();
    let expected = json!({ "success": true, "message": message, "domain": "new.example", "active": true });
    assert_eq!(approved, expected);
    let key = app.get(&app.admin, "/domains/new.example/dkim").await.assert(StatusCode::OK);
    app.post_empty(&app.admin, "/domains/new.example/approve").await.assert(StatusCode::OK);
    assert_eq!(app.get(&app.admin, "/domains/new.example/dkim").await.assert(StatusCode::OK), key);
}
