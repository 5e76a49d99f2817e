//! `/users/{email}/sessions`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_model::Permission;

use crate::support::App;

const PATH: &str = "/users/bob@example.org/sessions";

#[tokio::test]
async fn a_stranger_sees_and_ends_no_session() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    let ann = app.user("ann@example.org").await;
    for email in ["bob@example.org", "root@example.org"] {
        app.user(email).await;
    }
    let bob = app.log_in("bob@example.org").await;
    app.log_in("root@example.org").await;
    let id = app.get(&bob, PATH).await.assert(StatusCode::OK)["sessions"][0]["id"].to_string();
    app.get(&ann, PATH).await.assert_error(403, "ACCESS_DENIED");
    app.delete(&ann, &format!("{PATH}/{id}")).await.assert_error(403, "ACCESS_DENIED");
    app.delete(&ann, &format!("/users/ann@example.org/sessions/{id}")).await.assert_error(404, "TOKEN_NOT_FOUND");
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    app.get(&ann, "/users/root@example.org/sessions").await.assert_error(403, "ACCESS_DENIED");
    app.get(&ann, "/users/nobody@example.org/sessions").await.assert_error(404, "USER_NOT_FOUND");
    for other in ["x", "-1", "99999999999999999999"] {
        app.delete(&ann, &format!("{PATH}/{other}")).await.assert_error(404, "TOKEN_NOT_FOUND");
    }
    app.get(&bob, "/auth/me").await.assert(StatusCode::OK);
    app.delete(&ann, &format!("{PATH}/{id}")).await.assert(StatusCode::OK);
    app.get(&bob, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
}

#[tokio::test]
async fn open_sessions_are_listed_and_no_api_tokens() {
    let (app, _, token) = App::with_ann_and_bob().await;
    assert_eq!(app.get(&token, PATH).await.assert(StatusCode::OK)["total"], 0, "an API token is no session");
    let old = app.log_in("bob@example.org").await;
    app.clock.advance(Duration::from_secs(6 * 60));
    let new = app.log_in("bob@example.org").await;
    let listed = app.get(&new, PATH).await.assert(StatusCode::OK);
    assert_eq!((&listed["total"], &listed["sessions"][0]["is_current"]), (&2.into(), &true.into()), "{listed}");
    assert_eq!(listed["sessions"][0]["last_used_at"], app.now().to_string());
    assert!(!listed.to_string().contains(&new), "no value");
    app.clock.advance(Duration::from_secs(6 * 60));
    let listed = app.get(&new, PATH).await.assert(StatusCode::OK);
    assert_eq!(listed["total"], 1, "the other one was idle for too long");
    let id = listed["sessions"][0]["id"].to_string();
    let ended = app.delete(&token, &format!("{PATH}/{id}")).await.assert(StatusCode::OK);
    assert_eq!(ended["message"], "The session has ended.");
    app.delete(&token, &format!("{PATH}/{id}")).await.assert_error(404, "TOKEN_NOT_FOUND");
    for session in [old, new] {
        app.get(&session, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    }
    app.get(&token, "/auth/me").await.assert(StatusCode::OK);
}
