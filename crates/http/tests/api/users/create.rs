//! `POST /users`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::{Value, json};

use crate::support::{App, PASSWORD};

fn user(email: &str) -> Value {
    json!({ "email": email, "password": PASSWORD })
}

#[tokio::test]
async fn callers_without_the_right_are_refused_and_nothing_is_made() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.post(&ann, "/users", user("eve@example.org")).await.assert_error(403, "ACCESS_DENIED");
    app.get(&app.admin, "/users/eve@example.org").await.assert_error(404, "USER_NOT_FOUND");
}

#[tokio::test]
async fn every_broken_rule_is_named_at_once() {
    let app = App::start().await;
    let body = json!({ "email": "nobody", "password": "short", "name": "a\u{0}b", "quota_bytes": -1 });
    let fields = app.post(&app.admin, "/users", body).await.assert_invalid();
    assert_eq!(fields, ["email", "password", "name", "quota_bytes"]);
    assert_eq!(app.post(&app.admin, "/users", json!({})).await.assert_invalid(), ["email"]);
    let body = json!({ "email": ["x"], "password": 12345678, "quota_bytes": "1 GB" });
    assert_eq!(app.post(&app.admin, "/users", body).await.assert_invalid(), ["email", "password", "quota_bytes"]);
}

#[tokio::test]
async fn the_catch_all_of_a_domain_is_no_user() {
    let app = App::start().await;
    app.domain("example.org").await;
    assert_eq!(app.post(&app.admin, "/users", user("*@example.org")).await.assert_invalid(), ["email"]);
    app.get(&app.admin, "/users/*@example.org").await.assert_error(404, "USER_NOT_FOUND");
    let alias = json!({ "address": "*@example.org", "members": ["ann@far.example"] });
    app.post(&app.admin, "/aliases", alias).await.assert(StatusCode::CREATED);
}

#[tokio::test]
async fn a_quota_of_zero_is_no_limit() {
    let app = App::start().await;
    app.domain("example.org").await;
    let body = json!({ "email": "ann@example.org", "password": PASSWORD, "quota_bytes": 0 });
    app.post(&app.admin, "/users", body).await.assert(StatusCode::CREATED);
    let quota = async || app.get(&app.admin, "/users/ann@example.org").await.json()["user"]["quota_bytes"].clone();
    assert_eq!(quota().await, Value::Null);
    app.put(&app.admin, "/users/ann@example.org", json!({ "quota_bytes": 5000 })).await.assert(StatusCode::OK);
    assert_eq!(quota().await, 5000);
    app.put(&app.admin, "/users/ann@example.org", json!({ "quota_bytes": 0 })).await.assert(StatusCode::OK);
    assert_eq!(quota().await, Value::Null);
}

/// `secret`, as hashed by Dovecot.
const HASH: &str = "{BLF-CRYPT}$2y$05$y63VrWYhEwUlLY/Bh4F0ju2OUHfjxQhTzaVvI/HdZM4zbmItANCG.";

#[tokio::test]
async fn neither_or_both_of_password_and_hash_are_refused() {
    let app = App::start().await;
    app.domain("example.org").await;
    let neither = json!({ "email": "ann@example.org", "password": null });
    assert_eq!(app.post(&app.admin, "/users", neither).await.assert_invalid(), ["password"]);
    let both = json!({ "email": "ann@example.org", "password": PASSWORD, "password_hash": HASH });
    assert_eq!(app.post(&app.admin, "/users", both).await.assert_invalid(), ["password_hash"]);
    app.get(&app.admin, "/users/ann@example.org").await.assert_error(404, "USER_NOT_FOUND");
}

#[tokio::test]
async fn a_hash_of_an_unknown_scheme_is_refused_and_not_shown() {
    let app = App::start().await;
    app.domain("example.org").await;
    for hash in ["{MD5-CRYPT}$1$hidden", "{SSHA512}hidden", "hidden", "{BLF-CRYPT}$2y$31$hidden"] {
        let body = json!({ "email": "ann@example.org", "password_hash": hash });
        let answer = app.post(&app.admin, "/users", body).await;
        assert!(!answer.json().to_string().contains("hidden"), "{hash}");
        assert_eq!(answer.assert_invalid(), ["password_hash"], "{hash}");
    }
}

#[tokio::test]
async fn a_delegate_passes_no_hash() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    let body = json!({ "email": "eve@example.org", "password_hash": HASH });
    assert_eq!(app.post(&ann, "/users", body.clone()).await.assert_invalid(), ["password_hash"]);
    app.get(&app.admin, "/users/eve@example.org").await.assert_error(404, "USER_NOT_FOUND");
    app.post(&app.admin, "/users", body).await.assert(StatusCode::CREATED);
}

#[tokio::test]
async fn a_user_with_a_hash_logs_in_and_gets_a_new_hash() {
    let app = App::start().await;
    app.domain("example.org").await;
    let body = json!({ "email": "ann@example.org", "password_hash": HASH });
    let created = app.post(&app.admin, "/users", body).await.assert(StatusCode::CREATED);
    assert!(!created.to_string().contains("$2y$"), "{created}");
    let email = "ann@example.org".parse().unwrap();
    let stored = async || app.store.accounts().credentials(&email).await.unwrap().unwrap().password_hash;
    assert_eq!(stored().await.expose(), HASH);
    let wrong = json!({ "email": "ann@example.org", "password": "Secret" });
    app.post("", "/auth/login", wrong).await.assert_error(401, "INVALID_CREDENTIALS");
    assert_eq!(stored().await.expose(), HASH);
    for _ in 0..2 {
        let login = json!({ "email": "ann@example.org", "password": "secret" });
        app.post("", "/auth/login", login).await.assert(StatusCode::OK);
        assert!(stored().await.expose().starts_with("{SHA512-CRYPT}$6$"));
    }
}

#[tokio::test]
async fn no_answer_repeats_a_password() {
    let app = App::start().await;
    for (email, password) in
        [("nobody", "hunter2-hunter2"), ("ann@nowhere.example", "hunter2-hunter2"), ("ann@x.example", "hunt2")]
    {
        let answer = app.post(&app.admin, "/users", json!({ "email": email, "password": password })).await;
        assert!(!answer.json().to_string().contains("hunt"), "{email}");
    }
}

/// The account exists, so a failure would be a wrong response.
#[tokio::test]
async fn a_user_is_made_while_no_mailbox_can_be_looked_at() {
    let app = App::start().await;
    app.domain("example.org").await;
    app.trouble.go_down();
    let body = json!({ "email": "ann@example.org", "password": PASSWORD, "quota_bytes": 1_000_000 });
    let created = app.post(&app.admin, "/users", body).await.assert(StatusCode::CREATED);
    let user = &created["user"];
    assert_eq!((&user["quota_bytes"], &user["quota_used_bytes"]), (&json!(1_000_000), &json!(0)));
}

#[tokio::test]
async fn a_user_is_made_with_an_empty_mailbox() {
    let app = App::start().await;
    app.domain("example.org").await;
    let body = json!({ "email": "Ann@Example.org", "password": PASSWORD, "name": "Ann Lee", "quota_bytes": 1_000_000 });
    let created = app.post(&app.admin, "/users", body).await.assert(StatusCode::CREATED);
    let expected = json!({ "success": true, "user": {
        "email": "ann@example.org", "name": "Ann Lee", "domain": "example.org", "active": true, "is_admin": false,
        "quota_bytes": 1_000_000, "quota_used_bytes": 0, "message_count": 0, "quota_known": true,
        "created_at": app.now().to_string(), "updated_at": app.now().to_string(), "last_login_at": null,
    } });
    assert_eq!(created, expected);
    assert_eq!(app.get(&app.admin, "/users/ann@example.org").await.assert(StatusCode::OK), expected);
    let inbox = app.get(&app.admin, "/mailbox/ann@example.org/messages").await.assert(StatusCode::OK);
    assert_eq!(inbox["total"], 0);
    app.post(&app.admin, "/users", user("ANN@example.org")).await.assert_error(409, "USER_EXISTS");
}

#[tokio::test]
async fn a_delegate_makes_users_in_its_domain_and_nowhere_else() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    app.post(&ann, "/users", user("eve@example.org")).await.assert(StatusCode::CREATED);
    app.post(&ann, "/users", user("eve@other.example")).await.assert_error(403, "ACCESS_DENIED");
    app.post(&app.admin, "/users", user("eve@nowhere.example")).await.assert_error(404, "DOMAIN_NOT_FOUND");
}
