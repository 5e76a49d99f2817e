//! `POST /auth/logout`.

use axum::http::StatusCode;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn an_api_token_is_no_session() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for token in [&ann, &app.admin] {
        assert_eq!(app.post_empty(token, "/auth/logout").await.assert_invalid(), ["X-MAILAPI-TOKEN"]);
        app.get(token, "/auth/me").await.assert(StatusCode::OK);
    }
    app.post_empty("", "/auth/logout").await.assert_error(401, "NO_API_TOKEN");
}

#[tokio::test]
async fn a_session_that_logs_out_is_dead_and_the_others_are_not() {
    let (app, ..) = App::with_ann_and_bob().await;
    let (this, other) = (app.log_in("ann@example.org").await, app.log_in("ann@example.org").await);
    let answer = app.post_empty(&this, "/auth/logout").await.assert(StatusCode::OK);
    assert_eq!((&answer["success"], answer["message"].is_string()), (&json!(true), true));
    app.get(&this, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    app.post_empty(&this, "/auth/logout").await.assert_error(401, "TOKEN_EXPIRED");
    app.get(&other, "/auth/me").await.assert(StatusCode::OK);
}
