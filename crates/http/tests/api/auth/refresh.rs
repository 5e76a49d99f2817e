//! `POST /auth/refresh`.

use std::time::Duration;

use axum::http::StatusCode;

use crate::support::App;

#[tokio::test]
async fn an_api_token_is_no_session() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    assert_eq!(app.post_empty(&ann, "/auth/refresh").await.assert_invalid(), ["X-MAILAPI-TOKEN"]);
    app.get(&ann, "/auth/me").await.assert(StatusCode::OK);
    app.post_empty("maps_unknown", "/auth/refresh").await.assert_error(401, "INVALID_TOKEN");
}

#[tokio::test]
async fn a_new_session_has_its_whole_life_and_the_old_one_is_dead() {
    let (app, ..) = App::with_ann_and_bob().await;
    let old = app.log_in("ann@example.org").await;
    app.clock.advance(Duration::from_secs(300));
    let session = app.post_empty(&old, "/auth/refresh").await.assert(StatusCode::OK);
    let new = session["token"].as_str().unwrap();
    assert_ne!(new, old);
    assert_eq!((&session["email"], &session["token_type"]), (&"ann@example.org".into(), &"user".into()));
    assert_eq!(session["expires_at"], "2026-11-20T18:20:30.000Z");
    app.get(&old, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    app.post_empty(&old, "/auth/refresh").await.assert_error(401, "TOKEN_EXPIRED");
    app.get(new, "/auth/me").await.assert(StatusCode::OK);
}
