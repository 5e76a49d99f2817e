//! `PUT /users/{email}`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::{App, PASSWORD};

#[tokio::test]
async fn only_user_managers_change_users_and_others_learn_nothing() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    app.grant("bob@example.org", Permission::ManageUsers, "other.example").await;
    for token in [&ann, &bob] {
        for email in ["ann@example.org", "nobody@example.org", "nobody"] {
            let path = format!("/users/{email}");
            app.put(token, &path, json!({ "quota_bytes": "x" })).await.assert_error(403, "ACCESS_DENIED");
        }
    }
    for email in ["nobody@example.org", "nobody"] {
        app.put(&app.admin, &format!("/users/{email}"), json!({})).await.assert_error(404, "USER_NOT_FOUND");
    }
}

#[tokio::test]
async fn an_admins_account_is_out_of_a_delegates_reach() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    let (_, ann) = (app.user("root@example.org").await, app.user("ann@example.org").await);
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    let body = json!({ "password": "a new password" });
    app.put(&ann, "/users/root@example.org", body.clone()).await.assert_error(403, "ACCESS_DENIED");
    let root = app.log_in("root@example.org").await;
    app.put(&root, "/users/root@example.org", body).await.assert(StatusCode::OK);
}

#[tokio::test]
async fn every_broken_rule_is_named_and_nothing_changes() {
    let (app, ..) = App::with_ann_and_bob().await;
    let before = app.get(&app.admin, "/users/ann@example.org").await.json();
    for body in [
        json!({ "name": "a\nb", "quota_bytes": -1, "password": "short" }),
        json!({ "name": 1, "quota_bytes": 9_007_199_254_740_992_u64, "password": 12_345_678 }),
    ] {
        let fields = app.put(&app.admin, "/users/ann@example.org", body).await.assert_invalid();
        assert_eq!(fields, ["name", "quota_bytes", "password"]);
    }
    assert_eq!(app.get(&app.admin, "/users/ann@example.org").await.json(), before);
}

#[tokio::test]
async fn what_is_absent_stays_and_null_lifts_the_quota() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    let put = async |body| app.put(&ann, "/users/BOB@example.org", body).await.assert(StatusCode::OK)["user"].clone();
    app.clock.advance(std::time::Duration::from_secs(1));
    let changed = put(json!({ "name": " Bob Roe ", "quota_bytes": 5000 })).await;
    assert_eq!((&changed["name"], &changed["quota_bytes"]), (&json!("Bob Roe"), &json!(5000)));
    assert_eq!(changed["updated_at"], app.now().to_string());
    assert_eq!(put(json!({ "name": "Bob" })).await["quota_bytes"], 5000);
    let lifted = put(json!({ "quota_bytes": null })).await;
    assert_eq!((&lifted["name"], &lifted["quota_bytes"]), (&json!("Bob"), &json!(null)));
    assert_eq!(
        put(json!({ "quota_bytes": 9_007_199_254_740_991_u64 })).await["quota_bytes"],
        9_007_199_254_740_991_u64
    );
}

#[tokio::test]
async fn a_new_password_ends_the_sessions_and_leaves_the_tokens() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let session = app.log_in("ann@example.org").await;
    let body = json!({ "password": "another horse" });
    let answer = app.put(&app.admin, "/users/ann@example.org", body.clone()).await;
    assert!(!answer.assert(StatusCode::OK).to_string().contains("another horse"));
    app.get(&session, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    app.get(&ann, "/auth/me").await.assert(StatusCode::OK);
    let old = json!({ "email": "ann@example.org", "password": PASSWORD });
    app.post("", "/auth/login", old).await.assert_error(401, "INVALID_CREDENTIALS");
    let new = json!({ "email": "ann@example.org", "password": "another horse" });
    app.post("", "/auth/login", new).await.assert(StatusCode::OK);
}

/// The change is stored, so a failure would be a wrong response.
#[tokio::test]
async fn a_user_is_changed_while_the_mailbox_server_is_away() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.trouble.go_down();
    let body = json!({ "name": "Ann Lee", "quota_bytes": 5000, "password": "another horse" });
    let changed = app.put(&app.admin, "/users/ann@example.org", body).await.assert(StatusCode::OK)["user"].clone();
    assert_eq!((&changed["name"], &changed["quota_bytes"]), (&json!("Ann Lee"), &json!(5000)));
    let new = json!({ "email": "ann@example.org", "password": "another horse" });
    app.post("", "/auth/login", new).await.assert(StatusCode::OK);
    for (switch, active) in [("disable", false), ("enable", true)] {
        let path = format!("/users/ann@example.org/{switch}");
        assert_eq!(app.post_empty(&app.admin, &path).await.assert(StatusCode::OK)["user"]["active"], active);
    }
}
