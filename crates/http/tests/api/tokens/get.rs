//! `GET /tokens/{id}`.

use axum::http::StatusCode;

use crate::support::App;

#[tokio::test]
async fn another_users_token_is_denied_whether_it_exists_or_not() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let bobs = app.get(&bob, "/tokens/me").await.json()["id"].to_string();
    let admins = app.get(&app.admin, "/tokens/me").await.json()["id"].to_string();
    for id in [bobs.as_str(), &admins, "999", "x", "-1"] {
        app.get(&ann, &format!("/tokens/{id}")).await.assert_error(403, "ACCESS_DENIED");
    }
    for id in ["999", "x", "-1", "99999999999999999999999"] {
        app.get(&app.admin, &format!("/tokens/{id}")).await.assert_error(404, "TOKEN_NOT_FOUND");
    }
}

#[tokio::test]
async fn the_owner_and_admins_see_a_token() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let id = app.get(&ann, "/tokens/me").await.json()["id"].to_string();
    for caller in [&ann, &app.admin] {
        let seen = app.get(caller, &format!("/tokens/{id}")).await.assert(StatusCode::OK);
        assert_eq!((&seen["success"], &seen["email"]), (&true.into(), &"ann@example.org".into()));
    }
}
