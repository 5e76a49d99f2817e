//! `POST /auth/password`.

use axum::http::StatusCode;
use mailapi_backend::{Login, LoginError};
use mailapi_model::{LoginProtocol, Secret, Visitor};
use serde_json::json;

use crate::support::{Answer, App, PASSWORD};

const NEW: &str = "a staple for every horse";

async fn change(app: &App, token: &str, current: &str, new: &str) -> Answer {
    app.post(token, "/auth/password", json!({ "current_password": current, "new_password": new })).await
}

async fn log_in(app: &App, password: &str) -> Answer {
    app.post("", "/auth/login", json!({ "email": "ann@example.org", "password": password })).await
}

#[tokio::test]
async fn a_wrong_password_and_a_short_one_change_nothing() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let other = app.log_in("ann@example.org").await;
    change(&app, "", PASSWORD, NEW).await.assert_error(401, "NO_API_TOKEN");
    assert_eq!(change(&app, &app.admin, PASSWORD, NEW).await.assert_invalid(), ["X-MAILAPI-TOKEN"]);
    assert_eq!(change(&app, &ann, PASSWORD, "1234567").await.assert_invalid(), ["new_password"]);
    let empty = app.post(&ann, "/auth/password", json!({})).await;
    assert_eq!(empty.assert_invalid(), ["current_password", "new_password"]);
    change(&app, &ann, "wrong horse", NEW).await.assert_error(401, "INVALID_CREDENTIALS");
    log_in(&app, NEW).await.assert_error(401, "INVALID_CREDENTIALS");
    log_in(&app, PASSWORD).await.assert(StatusCode::OK);
    app.get(&other, "/auth/me").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn a_stolen_token_does_not_serve_to_guess_the_password() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for _ in 0..5 {
        change(&app, &ann, "wrong horse", NEW).await.assert_error(401, "INVALID_CREDENTIALS");
    }
    change(&app, &ann, PASSWORD, NEW).await.assert_error(429, "ACCOUNT_LOCKED");
}

#[tokio::test]
async fn a_user_changes_the_password_and_the_other_sessions_end() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let (this, other) = (app.log_in("ann@example.org").await, app.log_in("ann@example.org").await);
    let from = Visitor { protocol: LoginProtocol::Imap, address: [192, 0, 2, 1].into() };
    let password = Secret::new(PASSWORD.to_owned());
    let mut mail_program = app.service.log_in("ann@example.org", &password, from).await.unwrap();

    let answer = change(&app, &this, PASSWORD, NEW).await.assert(StatusCode::OK);
    assert_eq!(answer, json!({ "success": true, "message": "The password was changed." }));
    app.get(&other, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    assert_eq!(app.service.renew(&mut mail_program).await, Err(LoginError::Refused));
    for token in [&this, &ann, &bob] {
        app.get(token, "/auth/me").await.assert(StatusCode::OK);
    }
    log_in(&app, PASSWORD).await.assert_error(401, "INVALID_CREDENTIALS");
    log_in(&app, NEW).await.assert(StatusCode::OK);
    change(&app, &ann, NEW, PASSWORD).await.assert(StatusCode::OK);
    app.get(&this, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
}

#[tokio::test]
async fn an_admin_who_logged_in_changes_the_own_password() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    app.user("root@example.org").await;
    let session = app.log_in("root@example.org").await;
    change(&app, &session, PASSWORD, NEW).await.assert(StatusCode::OK);
    app.get(&session, "/permissions").await.assert(StatusCode::OK);
}
