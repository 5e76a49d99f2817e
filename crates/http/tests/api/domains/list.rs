//! `GET /domains`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::Value;

use crate::support::App;

fn names(body: &Value) -> Vec<&str> {
    body["domains"].as_array().unwrap().iter().map(|domain| domain["domain"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pages_never_overlap() {
    let app = App::start().await;
    for name in ["a.example", "b.example", "c.example"] {
        app.domain(name).await;
        app.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(app.get(&app.admin, "/domains?limit=0").await.assert_invalid(), ["limit"]);
    let first = app.get(&app.admin, "/domains?limit=2").await.assert(StatusCode::OK);
    assert_eq!((names(&first), &first["total"]), (vec!["c.example", "b.example"], &Value::from(3)));
    let second = app.get(&app.admin, "/domains?limit=2&offset=2").await.assert(StatusCode::OK);
    assert_eq!(names(&second), ["a.example"]);
    assert_eq!((&second["limit"], &second["offset"]), (&Value::from(2), &Value::from(2)));
    assert!(names(&app.get(&app.admin, "/domains?offset=99").await.assert(StatusCode::OK)).is_empty());
}

#[tokio::test]
async fn others_see_what_they_manage() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    assert!(names(&app.get(&ann, "/domains").await.assert(StatusCode::OK)).is_empty());
    app.grant("bob@example.org", Permission::ManageDomains, "other.example").await;
    assert_eq!(names(&app.get(&bob, "/domains").await.assert(StatusCode::OK)), ["other.example"]);
}
