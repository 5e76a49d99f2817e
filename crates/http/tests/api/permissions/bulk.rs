//! `POST /permissions/bulk`.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::App;

fn grants(permissions: Value) -> Value {
    json!({ "email": "ann@example.org", "permissions": permissions, "domain": "example.org" })
}

#[tokio::test]
async fn one_that_is_unknown_lets_none_be_granted() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let post = async |body| app.post(&app.admin, "/permissions/bulk", body).await;
    let mixed = post(grants(json!(["view_stats", "fly", 3]))).await;
    assert_eq!(mixed.assert_invalid(), ["permissions[1]", "permissions[2]"]);
    assert_eq!(post(grants(json!("view_stats"))).await.assert_invalid(), ["permissions"]);
    assert_eq!(post(grants(json!([]))).await.assert_invalid(), ["permissions"]);
    assert_eq!(post(json!({})).await.assert_invalid(), ["email", "permissions", "domain"]);
    for (member, value, code) in
        [("email", "nobody@example.org", "USER_NOT_FOUND"), ("domain", "nowhere.example", "DOMAIN_NOT_FOUND")]
    {
        let mut body = grants(json!(["view_stats"]));
        body[member] = json!(value);
        post(body).await.assert_error(404, code);
    }
    assert_eq!(app.get(&ann, "/permissions/mine").await.json()["total"], 0);
    app.post(&ann, "/permissions/bulk", grants(json!(["view_stats"]))).await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn what_is_new_is_granted_and_the_rest_skipped() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let post = async |body| app.post(&app.admin, "/permissions/bulk", body).await.assert(StatusCode::CREATED);
    let first = post(grants(json!(["view_stats", "send_mail", "view_stats"]))).await;
    let message = first["message"].as_str().unwrap();
    assert_eq!(
        first,
        json!({ "success": true, "message": message, "granted": ["view_stats", "send_mail"], "skipped": [] })
    );
    let second = post(grants(json!(["manage_users", "send_mail"]))).await;
    assert_eq!((&second["granted"], &second["skipped"]), (&json!(["manage_users"]), &json!(["send_mail"])));
    assert_eq!(app.get(&ann, "/permissions/mine").await.json()["total"], 3);
    app.get(&ann, "/users").await.assert(StatusCode::OK);
}
