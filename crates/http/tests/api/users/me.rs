//! `GET /users/me`.

use axum::http::StatusCode;

use crate::support::App;

#[tokio::test]
async fn a_user_sees_itself_and_an_admin_token_is_no_user() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let me = app.get(&ann, "/users/me").await.assert(StatusCode::OK);
    assert_eq!((&me["user"]["email"], &me["user"]["domain"]), (&"ann@example.org".into(), &"example.org".into()));
    app.get(&app.admin, "/users/me").await.assert_error(404, "USER_NOT_FOUND");
}
