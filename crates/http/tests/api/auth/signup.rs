//! `POST /auth/signup`.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::{Answer, App, PASSWORD};

fn request() -> Value {
    json!({ "domain": "new.example", "email": "ann@new.example", "password": PASSWORD, "name": "Ann Lee" })
}

fn with(member: &str, value: &str) -> Value {
    let mut request = request();
    request[member] = json!(value);
    request
}

async fn sign_up(app: &App, request: Value) -> Answer {
    app.post("", "/auth/signup", request).await
}

#[tokio::test]
async fn every_broken_rule_is_named_and_nothing_is_made() {
    let app = App::start().await;
    assert_eq!(sign_up(&app, json!({})).await.assert_invalid(), ["domain", "email", "password"]);
    let wrong = json!({ "domain": "-", "email": "ann", "password": "1234567", "name": "a\u{0}" });
    assert_eq!(sign_up(&app, wrong).await.assert_invalid(), ["domain", "email", "password", "name"]);
    for email in ["ann@other.example", "ann@sub.new.example", "ann@evilnew.example", "*@new.example"] {
        assert_eq!(sign_up(&app, with("email", email)).await.assert_invalid(), ["email"], "{email}");
    }
    assert_eq!(app.get(&app.admin, "/domains").await.json()["total"], 0);
    assert_eq!(app.get(&app.admin, "/users").await.json()["total"], 0);
}

#[tokio::test]
async fn a_domain_that_exists_or_is_an_admins_is_taken() {
    let app = App::with(|settings, _| settings.admins = ["root@new.example".parse().unwrap()].into()).await;
    sign_up(&app, request()).await.assert_error(409, "DOMAIN_EXISTS");
    sign_up(&app, with("email", "root@new.example")).await.assert_error(409, "DOMAIN_EXISTS");
    let app = App::start().await;
    app.domain("new.example").await;
    sign_up(&app, with("domain", "NEW.example")).await.assert_error(409, "DOMAIN_EXISTS");
    assert_eq!(app.get(&app.admin, "/users").await.json()["total"], 0);
}

#[tokio::test]
async fn a_domain_has_three_tries_an_hour() {
    let app = App::start().await;
    app.domain("new.example").await;
    for _ in 0..3 {
        sign_up(&app, request()).await.assert_error(409, "DOMAIN_EXISTS");
        app.clock.advance(Duration::from_secs(60));
    }
    let refused = sign_up(&app, request()).await;
    refused.assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!(refused.header("retry-after"), "3420");
    app.clock.advance(Duration::from_secs(3420));
    sign_up(&app, request()).await.assert_error(409, "DOMAIN_EXISTS");
}

#[tokio::test]
async fn the_mailbox_works_at_once_and_the_domain_waits() {
    let app = App::start().await;
    let mut answer = sign_up(&app, request()).await.assert(StatusCode::CREATED);
    let ann = answer["token"].take().as_str().unwrap().to_owned();
    assert!(ann.starts_with("maps_"));
    assert!(!answer["message"].take().as_str().unwrap().is_empty());
    let expected = json!({
        "success": true, "token": null, "token_type": "user", "email": "ann@new.example", "name": "Ann Lee",
        "domain": "new.example", "domain_status": "pending", "expires_at": "2026-11-20T18:15:30.000Z", "message": null,
    });
    assert_eq!(answer, expected);

    app.log_in("ann@new.example").await;
    assert_eq!(app.get(&ann, "/mail/inbox").await.assert(StatusCode::OK)["total"], 0);
    let mine = app.get(&ann, "/permissions/mine").await.assert(StatusCode::OK);
    assert_eq!((&mine["total"], &mine["permissions"][0]["permission"]), (&json!(1), &json!("manage_domains")));
    let domain = app.get(&ann, "/domains/new.example").await.assert(StatusCode::OK)["domain"].clone();
    assert_eq!(
        (&domain["active"], &domain["dkim_selector"], &domain["creator_email"]),
        (&json!(false), &json!(null), &json!("ann@new.example"))
    );
    let message = json!({ "from": "ann@new.example", "to": ["ann@new.example"], "body": { "text": "x" } });
    app.post(&ann, "/mail/send", message.clone()).await.assert_error(403, "DOMAIN_NOT_ALLOWED");

    app.put(&ann, "/domains/new.example", json!({ "active": true })).await.assert_error(403, "ACCESS_DENIED");
    app.post_empty(&ann, "/domains/new.example/approve").await.assert_error(403, "ACCESS_DENIED");
    app.post_empty(&app.admin, "/domains/new.example/approve").await.assert(StatusCode::OK);
    app.post(&ann, "/mail/send", message).await.assert(StatusCode::ACCEPTED);
}

#[tokio::test]
async fn no_answer_repeats_the_password() {
    let app = App::start().await;
    for request in [request(), with("email", "x"), with("email", "ann@other.example")] {
        let shown = String::from_utf8(sign_up(&app, request).await.bytes.to_vec()).unwrap();
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
}

#[tokio::test]
async fn with_signups_disabled_a_request_is_refused() {
    let app = App::with(|settings, _| settings.signups_per_hour = 0).await;
    sign_up(&app, request()).await.assert_error(403, "ACCESS_DENIED");
    assert_eq!(app.get(&app.admin, "/domains/pending").await.json()["total"], 0);
    app.get(&app.admin, "/domains/new.example").await.assert_error(404, "DOMAIN_NOT_FOUND");
}

#[tokio::test]
async fn a_client_has_three_tries_an_hour() {
    let app = App::start().await;
    let mut answers = Vec::new();
    for n in 0..4 {
        let domain = format!("new{n}.example");
        let request = json!({ "domain": domain, "email": format!("eve@{domain}"), "password": PASSWORD });
        answers.push(sign_up(&app, request).await);
    }
    answers[3].assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!(answers[3].header("retry-after"), "3600");
    assert_eq!(app.get(&app.admin, "/domains/pending").await.json()["total"], 3);
}
