//! `DELETE /tokens/{id}`.

use axum::http::StatusCode;
use serde_json::json;

use crate::support::App;

async fn id(app: &App, token: &str) -> String {
    app.get(token, "/tokens/me").await.assert(StatusCode::OK)["id"].to_string()
}

#[tokio::test]
async fn a_token_that_is_not_ones_own_stays() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    for other in [id(&app, &bob).await, id(&app, &app.admin).await, "999".to_owned(), "x".to_owned()] {
        app.delete(&ann, &format!("/tokens/{other}")).await.assert_error(403, "ACCESS_DENIED");
    }
    id(&app, &bob).await;
    app.delete(&app.admin, "/tokens/999").await.assert_error(404, "TOKEN_NOT_FOUND");
}

#[tokio::test]
async fn a_revoked_token_is_dead_at_once() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let anns = id(&app, &ann).await;
    let answer = app.delete(&ann, &format!("/tokens/{anns}")).await.assert(StatusCode::OK);
    assert_eq!((&answer["success"], answer["id"].to_string()), (&json!(true), anns.clone()));
    app.get(&ann, "/tokens/me").await.assert_error(401, "TOKEN_EXPIRED");
    let kept = app.get(&app.admin, &format!("/tokens/{anns}")).await.assert(StatusCode::OK);
    assert_eq!(kept["is_active"], false);
}

#[tokio::test]
async fn the_last_way_in_for_an_admin_stays() {
    let app = App::start().await;
    let last = format!("/tokens/{}", id(&app, &app.admin).await);
    assert_eq!(app.delete(&app.admin, &last).await.assert_invalid(), ["id"]);
    let second = app.post(&app.admin, "/tokens", json!({ "name": "second", "token_type": "admin" })).await;
    let second = second.assert(StatusCode::CREATED)["token"].as_str().unwrap().to_owned();
    app.delete(&second, &last).await.assert(StatusCode::OK);
    app.get(&app.admin, "/tokens/me").await.assert_error(401, "TOKEN_EXPIRED");
    app.get(&second, "/tokens/me").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn one_that_was_switched_off_before_is_revoked_for_good_too() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let path = format!("/tokens/{}", id(&app, &ann).await);
    app.put(&app.admin, &path, json!({ "is_active": false })).await.assert(StatusCode::OK);
    for _ in 0..2 {
        app.delete(&app.admin, &path).await.assert(StatusCode::OK);
    }
    assert_eq!(app.put(&app.admin, &path, json!({ "is_active": true })).await.assert_invalid(), ["is_active"]);
    app.get(&ann, "/tokens/me").await.assert_error(401, "TOKEN_EXPIRED");
}
