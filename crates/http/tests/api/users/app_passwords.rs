//! `/users/{email}/app-passwords`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::{Value, json};

use crate::support::{App, PASSWORD};

const PATH: &str = "/users/bob@example.org/app-passwords";

async fn create(app: &App, token: &str, name: &str) -> Value {
    app.post(token, PATH, json!({ "name": name })).await.assert(StatusCode::CREATED)
}

#[tokio::test]
async fn a_stranger_sees_and_changes_nothing() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    let ann = app.user("ann@example.org").await;
    let bob = app.user("bob@example.org").await;
    app.user("root@example.org").await;
    let made = create(&app, &bob, "phone").await["app_password"]["id"].take();
    let of_bob = format!("{PATH}/{made}");
    app.post_text(&ann, PATH, "no JSON").await.assert_error(403, "ACCESS_DENIED");
    app.get(&ann, PATH).await.assert_error(403, "ACCESS_DENIED");
    app.delete(&ann, &of_bob).await.assert_error(403, "ACCESS_DENIED");
    app.get(&ann, "/users/no-address/app-passwords").await.assert_error(403, "ACCESS_DENIED");
    app.delete(&ann, &format!("/users/ann@example.org/app-passwords/{made}"))
        .await
        .assert_error(404, "APP_PASSWORD_NOT_FOUND");
    assert_eq!(app.get(&bob, PATH).await.assert(StatusCode::OK)["total"], 1);

    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    let of_root = "/users/root@example.org/app-passwords";
    app.get(&ann, of_root).await.assert_error(403, "ACCESS_DENIED");
    app.post(&ann, of_root, json!({ "name": "x" })).await.assert_error(403, "ACCESS_DENIED");
    app.delete(&ann, &format!("{of_root}/{made}")).await.assert_error(403, "ACCESS_DENIED");
    app.get(&ann, "/users/nobody@example.org/app-passwords").await.assert_error(404, "USER_NOT_FOUND");
    app.delete(&ann, &of_bob).await.assert(StatusCode::OK);
}

#[tokio::test]
async fn a_wrong_name_a_wrong_number_and_one_too_many_are_refused() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    for name in [json!(null), json!(""), json!(" "), json!("a\nb"), json!("x".repeat(201)), json!(7)] {
        assert_eq!(app.post(&bob, PATH, json!({ "name": name })).await.assert_invalid(), ["name"], "{name}");
    }
    app.post_text(&bob, PATH, "no JSON").await.assert_error(400, "INVALID_JSON");
    for id in ["1", "-1", "x", "99999999999999999999"] {
        app.delete(&bob, &format!("{PATH}/{id}")).await.assert_error(404, "APP_PASSWORD_NOT_FOUND");
    }
    app.post(&app.admin, "/users/nobody@example.org/app-passwords", json!({ "name": "x" }))
        .await
        .assert_error(404, "USER_NOT_FOUND");
    for _ in 0..50 {
        create(&app, &bob, "phone").await;
    }
    assert_eq!(app.post(&bob, PATH, json!({ "name": "phone" })).await.assert_invalid(), ["email"]);
    assert_eq!(app.get(&bob, PATH).await.assert(StatusCode::OK)["total"], 50);
}

#[tokio::test]
async fn the_value_is_shown_once_and_the_rest_is_listed() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    let created = create(&app, &bob, " phone ").await;
    let password = created["password"].as_str().unwrap();
    let groups: Vec<_> = password.split('-').collect();
    assert!(groups.len() == 4 && groups.iter().all(|group| group.len() == 5), "{password}");
    let record = json!({
        "id": created["app_password"]["id"], "name": "phone", "created_at": app.now().to_string(),
        "last_used_at": null,
    });
    assert_eq!(created, json!({ "success": true, "password": password, "app_password": record }));
    create(&app, &bob, "tablet").await;

    let listed = app.get(&bob, &format!("{PATH}?limit=1&offset=1")).await;
    assert!(!String::from_utf8_lossy(&listed.bytes).contains(password));
    let page = json!({ "success": true, "total": 2, "limit": 1, "offset": 1, "app_passwords": [record] });
    assert_eq!(listed.assert(StatusCode::OK), page);
    let login = json!({ "email": "bob@example.org", "password": password });
    app.post("", "/auth/login", login).await.assert_error(401, "INVALID_CREDENTIALS");
}

#[tokio::test]
async fn a_revoked_app_password_is_gone() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    let id = create(&app, &bob, "phone").await["app_password"]["id"].take();
    let revoked = app.delete(&bob, &format!("{PATH}/{id}")).await.assert(StatusCode::OK);
    assert_eq!(revoked, json!({ "success": true, "message": "The app password was revoked.", "id": id }));
    app.delete(&bob, &format!("{PATH}/{id}")).await.assert_error(404, "APP_PASSWORD_NOT_FOUND");
    assert_eq!(app.get(&bob, PATH).await.assert(StatusCode::OK)["app_passwords"], json!([]));
}

/// Dovecot reads the accounts in the database of this run, SQLite or PostgreSQL.
#[tokio::test(flavor = "multi_thread")]
async fn dovecot_accepts_it_until_it_is_revoked() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    let logs_in = |user: &str, password: &str| app.mail_server.logs_in(&format!("{user}@example.org"), password);
    if logs_in("bob", PASSWORD).is_none() {
        return;
    }
    let created = create(&app, &bob, "phone").await;
    let (value, id) = (created["password"].as_str().unwrap(), &created["app_password"]["id"]);
    assert_eq!([logs_in("bob", value), logs_in("bob", PASSWORD)], [Some(true); 2]);
    for (user, password) in [("ann", value), ("bob", "aaaaa-aaaaa-aaaaa-aaaaa"), ("bob", "x' OR 'x' = 'x"), ("bob", "")]
    {
        assert_eq!(logs_in(user, password), Some(false), "{user} {password}");
    }
    app.delete(&bob, &format!("{PATH}/{id}")).await.assert(StatusCode::OK);
    assert_eq!([logs_in("bob", value), logs_in("bob", PASSWORD)], [Some(false), Some(true)]);
}
