//! `POST /domains`.

use axum::http::StatusCode;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn others_than_admins_are_refused_and_nothing_is_made() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.post(&ann, "/domains", json!({ "domain": "evil.example" })).await.assert_error(403, "ACCESS_DENIED");
    app.get(&app.admin, "/domains/evil.example").await.assert_error(404, "DOMAIN_NOT_FOUND");
}

#[tokio::test]
async fn what_is_no_domain_is_refused() {
    let app = App::start().await;
    for domain in [json!("exa mple.org"), json!(""), json!("192.0.2.1"), json!(17), json!(null), json!("-x.org")] {
        assert_eq!(app.post(&app.admin, "/domains", json!({ "domain": domain })).await.assert_invalid(), ["domain"]);
    }
    let body = json!({ "description": "a\nb" });
    assert_eq!(app.post(&app.admin, "/domains", body).await.assert_invalid(), ["domain", "description"]);
}

#[tokio::test]
async fn a_domain_is_active_at_once_and_has_a_key() {
    let app = App::start().await;
    let body = json!({ "domain": "Example.ORG", "description": " Our own " });
    let created = app.post(&app.admin, "/domains", body).await.assert(StatusCode::CREATED);
    let expected = json!({ "success": true, "domain": {
        "domain": "example.org", "active": true, "created": "2026-11-20T10:15:30.000Z", "creator_email": null,
        "description": "Our own", "user_count": 0, "dkim_selector": "m2026112001", "verified": false,
        "verified_at": null,
    } });
    assert_eq!(created, expected);
    assert_eq!(app.get(&app.admin, "/domains/example.org").await.assert(StatusCode::OK), expected);
}

#[tokio::test]
async fn the_same_domain_in_any_spelling_is_there_once() {
    let app = App::start().await;
    let international = json!({ "domain": "Bücher.example" });
    let created = app.post(&app.admin, "/domains", international).await.assert(StatusCode::CREATED);
    assert_eq!(created["domain"]["domain"], "bücher.example");
    let again = json!({ "domain": "xn--bcher-kva.EXAMPLE" });
    app.post(&app.admin, "/domains", again).await.assert_error(409, "DOMAIN_EXISTS");
}
