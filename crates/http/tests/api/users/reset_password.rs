//! `POST /users/{email}/reset-password`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::{App, PASSWORD};

const PATH: &str = "/users/bob@example.org/reset-password";

#[tokio::test]
async fn without_the_right_a_reset_changes_and_reveals_nothing() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    let ann = app.user("ann@example.org").await;
    app.user("root@example.org").await;
    app.post_text(&ann, "/users/ann@example.org/reset-password", "no JSON").await.assert_error(403, "ACCESS_DENIED");
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    app.post_empty(&ann, "/users/root@example.org/reset-password").await.assert_error(403, "ACCESS_DENIED");
    app.log_in("root@example.org").await;
    app.post_empty(&ann, "/users/nobody@example.org/reset-password").await.assert_error(404, "USER_NOT_FOUND");
}

#[tokio::test]
async fn a_weak_password_is_refused_and_the_old_one_stays() {
    let (app, ..) = App::with_ann_and_bob().await;
    for password in [json!("1234567"), json!(""), json!(12_345_678), json!("x".repeat(257))] {
        assert_eq!(app.post(&app.admin, PATH, json!({ "password": password })).await.assert_invalid(), ["password"]);
    }
    app.post_text(&app.admin, PATH, "no JSON").await.assert_error(400, "INVALID_JSON");
    app.log_in("bob@example.org").await;
}

#[tokio::test]
async fn a_password_that_was_brought_is_not_repeated() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    let session = app.log_in("bob@example.org").await;
    let body = json!({ "password": "another horse" });
    let reset = app.post(&ann, PATH, body.clone()).await.assert(StatusCode::OK);
    assert_eq!(reset, json!({ "success": true, "message": "The password was changed." }));
    app.get(&session, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    app.get(&bob, "/auth/me").await.assert(StatusCode::OK);
    let login = json!({ "email": "bob@example.org", "password": "another horse" });
    app.post("", "/auth/login", login).await.assert(StatusCode::OK);
}

#[tokio::test]
async fn without_a_password_a_strong_one_is_generated_and_shown_once() {
    let (app, ..) = App::with_ann_and_bob().await;
    let mut made = Vec::new();
    for answer in
        [app.post_empty(&app.admin, PATH).await, app.post(&app.admin, PATH, json!({ "password": null })).await]
    {
        made.push(answer.assert(StatusCode::OK)["password"].as_str().unwrap().to_owned());
    }
    assert!(made[0] != made[1] && made.iter().all(|password| password.len() == 24), "{made:?}");
    let attempt = async |password: &str| {
        app.post("", "/auth/login", json!({ "email": "bob@example.org", "password": password })).await.status.as_u16()
    };
    assert_eq!([attempt(PASSWORD).await, attempt(&made[0]).await, attempt(&made[1]).await], [401, 401, 200]);
}
