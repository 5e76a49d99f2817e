//! `GET /domains/pending`.

use axum::http::StatusCode;
use serde_json::json;

use crate::support::{App, PASSWORD};

#[tokio::test]
async fn admins_see_what_waits_for_them_and_nothing_else() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.get(&ann, "/domains/pending").await.assert_error(403, "ACCESS_DENIED");
    assert_eq!(app.get(&app.admin, "/domains/pending?limit=x").await.assert_invalid(), ["limit"]);
    app.put(&app.admin, "/domains/example.org", json!({ "active": false })).await.assert(StatusCode::OK);
    let request = json!({ "domain": "new.example", "email": "eve@new.example", "password": PASSWORD, "name": "Eve" });
    app.post("", "/auth/signup", request).await.assert(StatusCode::CREATED);
    let expected = json!({ "success": true, "total": 1, "limit": 50, "offset": 0, "domains": [{
        "domain": "new.example", "active": false, "created": "2026-11-20T10:15:30.000Z",
        "creator_email": "eve@new.example",
    }] });
    assert_eq!(app.get(&app.admin, "/domains/pending").await.assert(StatusCode::OK), expected);
    app.post_empty(&app.admin, "/domains/new.example/approve").await.assert(StatusCode::OK);
    assert_eq!(app.get(&app.admin, "/domains/pending").await.json()["total"], 0);
}
