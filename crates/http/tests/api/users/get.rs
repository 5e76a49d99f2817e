//! `GET /users/{email}`.

use axum::http::StatusCode;
use mailapi_model::Permission;

use crate::support::App;

#[tokio::test]
async fn only_managers_of_a_domains_users_see_them() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    for path in ["/users/bob@example.org", "/users/nobody@example.org", "/users/nobody"] {
        app.get(&ann, path).await.assert_error(403, "ACCESS_DENIED");
    }
    app.grant("bob@example.org", Permission::ManageUsers, "example.org").await;
    let seen = app.get(&bob, "/users/ANN%40example.org").await.assert(StatusCode::OK);
    assert_eq!(seen["user"]["email"], "ann@example.org");
    app.get(&bob, "/users/nobody@example.org").await.assert_error(404, "USER_NOT_FOUND");
}

#[tokio::test]
async fn an_admins_account_is_hidden_from_delegates() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    let (_, ann) = (app.user("root@example.org").await, app.user("ann@example.org").await);
    let root = app.log_in("root@example.org").await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    app.get(&ann, "/users/root@example.org").await.assert_error(403, "ACCESS_DENIED");
    let listed = app.get(&ann, "/users").await.assert(StatusCode::OK);
    assert_eq!((&listed["total"], &listed["users"][0]["email"]), (&1.into(), &"ann@example.org".into()));
    assert_eq!(app.get(&root, "/users/root@example.org").await.assert(StatusCode::OK)["user"]["is_admin"], true);
}

#[tokio::test]
async fn to_an_admin_what_does_not_exist_does_not_exist() {
    let (app, ..) = App::with_ann_and_bob().await;
    for path in ["/users/nobody@example.org", "/users/nobody", "/users/a%00b@example.org"] {
        app.get(&app.admin, path).await.assert_error(404, "USER_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_user_is_seen_while_the_mailbox_server_is_away() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.deliver("ann@example.org", "Subject: x\n\nx\n").await;
    let there = app.get(&app.admin, "/users/ann@example.org").await.assert(StatusCode::OK);
    app.trouble.go_down();
    let away = app.get(&app.admin, "/users/ann@example.org").await.assert(StatusCode::OK);
    assert_eq!(app.get(&ann, "/users/me").await.assert(StatusCode::OK), away);
    let mut expected = there;
    for member in ["quota_used_bytes", "message_count"] {
        assert_ne!(expected["user"][member], 0, "{member}");
        expected["user"][member] = 0.into();
    }
    assert_eq!(expected["user"]["quota_known"], true);
    expected["user"]["quota_known"] = false.into();
    assert_eq!(away, expected);
}
