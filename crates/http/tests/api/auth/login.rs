//! `POST /auth/login`.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use futures_util::future::join_all;
use serde_json::json;

use crate::support::{Answer, App, PASSWORD};

const MINUTE: Duration = Duration::from_secs(60);

async fn attempt(app: &App, email: &str, password: &str) -> Answer {
    app.post("", "/auth/login", json!({ "email": email, "password": password })).await
}

fn without_name(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for own in ["x-request-id", "ratelimit-remaining"] {
        headers.remove(own);
    }
    headers
}

#[tokio::test]
async fn unknown_wrong_and_disabled_are_one_answer() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.post_empty(&app.admin, "/users/bob@example.org/disable").await.assert(StatusCode::OK);
    let mut answers = Vec::new();
    let long = "x".repeat(60_000);
    for (email, password) in [
        ("nobody@example.org", PASSWORD),
        ("ann@example.org", "wrong horse"),
        ("bob@example.org", PASSWORD),
        ("ann@elsewhere.example", PASSWORD),
        ("no address", PASSWORD),
        ("ann@example.org", ""),
        ("ann@example.org", &long),
    ] {
        let answer = attempt(&app, email, password).await;
        answer.assert_error(401, "INVALID_CREDENTIALS");
        answers.push((answer.bytes.clone(), without_name(&answer.headers)));
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
}

#[tokio::test]
async fn every_member_has_to_be_there() {
    let app = App::start().await;
    let fields = |answer: Answer| answer.assert_invalid();
    assert_eq!(fields(app.post("", "/auth/login", json!({})).await), ["email", "password"]);
    assert_eq!(fields(app.post("", "/auth/login", json!({ "email": 1, "password": [] })).await), ["email", "password"]);
    app.post_text("", "/auth/login", "email=x").await.assert_error(400, "INVALID_JSON");
}

#[tokio::test]
async fn five_failures_lock_any_address_for_a_quarter_of_an_hour() {
    let (app, ..) = App::with_ann_and_bob().await;
    let mut locked = Vec::new();
    for email in ["ann@example.org", "nobody@example.org"] {
        for spelling in [email, &email.to_uppercase(), email, &format!("\"{}", email.replacen('@', "\"@", 1)), email] {
            attempt(&app, spelling, "wrong horse").await.assert_error(401, "INVALID_CREDENTIALS");
        }
        let answer = attempt(&app, email, PASSWORD).await;
        answer.assert_error(429, "ACCOUNT_LOCKED");
        assert_eq!(answer.header("retry-after"), "900");
        locked.push((answer.bytes.clone(), without_name(&answer.headers)));
    }
    assert_eq!(locked[0], locked[1]);
    attempt(&app, "bob@example.org", PASSWORD).await.assert(StatusCode::OK);

    app.clock.advance(14 * MINUTE);
    assert_eq!(attempt(&app, "ann@example.org", PASSWORD).await.header("retry-after"), "60");
    app.clock.advance(MINUTE);
    attempt(&app, "ann@example.org", PASSWORD).await.assert(StatusCode::OK);
}

#[tokio::test]
async fn a_success_forgives_the_failures_before_it() {
    let (app, ..) = App::with_ann_and_bob().await;
    for _ in 0..3 {
        for _ in 0..4 {
            attempt(&app, "ann@example.org", "wrong horse").await.assert_error(401, "INVALID_CREDENTIALS");
        }
        attempt(&app, "ann@example.org", PASSWORD).await.assert(StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_at_once_are_five_guesses_too() {
    let app = App::with(|_, http| http.limits.per_minute = 0).await;
    app.domain("example.org").await;
    app.user("ann@example.org").await;
    let app = &app;
    let guesses = (0..40).map(|n| async move {
        let guess = if n == 39 { PASSWORD.to_owned() } else { format!("wrong horse {n}") };
        attempt(app, "ann@example.org", &guess).await.status.as_u16()
    });
    let statuses = join_all(guesses).await;
    let judged = statuses.iter().filter(|status| **status != 429).count();
    assert!(judged <= 5 || statuses.contains(&200), "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 5, "{statuses:?}");
}

#[tokio::test]
async fn a_login_returns_a_working_session_token() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.put(&app.admin, "/users/ann@example.org", json!({ "name": "Ann Lee" })).await.assert(StatusCode::OK);
    app.clock.advance(MINUTE);
    let mut session = attempt(&app, "ANN@example.org", PASSWORD).await.assert(StatusCode::OK);
    let token = session["token"].take().as_str().unwrap().to_owned();
    assert!(token.starts_with("maps_") && token.len() == 48, "{token}");
    let expected = json!({
        "success": true, "token": null, "token_type": "user", "email": "ann@example.org", "name": "Ann Lee",
        "expires_at": "2026-11-20T18:16:30.000Z", "inactivity_timeout_seconds": 600,
    });
    assert_eq!(session, expected);
    let me = app.get(&token, "/users/me").await.assert(StatusCode::OK);
    assert_eq!(me["user"]["last_login_at"], "2026-11-20T10:16:30.000Z");
    app.get(&token, "/domains/example.org").await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn an_admins_session_is_an_admins() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    app.user("root@example.org").await;
    let session = attempt(&app, "root@example.org", PASSWORD).await.assert(StatusCode::OK);
    assert_eq!(session["token_type"], "admin");
    app.get(session["token"].as_str().unwrap(), "/permissions").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn a_session_ends_by_idleness_and_by_age() {
    let (app, ..) = App::with_ann_and_bob().await;
    let (idle, busy) = (app.log_in("ann@example.org").await, app.log_in("ann@example.org").await);
    for _ in 0..47 {
        app.clock.advance(10 * MINUTE);
        app.get(&busy, "/auth/me").await.assert(StatusCode::OK);
    }
    app.get(&idle, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
    app.clock.advance(10 * MINUTE);
    app.get(&busy, "/auth/me").await.assert_error(401, "TOKEN_EXPIRED");
}

#[tokio::test]
async fn a_client_has_its_hundred_attempts_a_minute() {
    let app = App::with(|settings, http| {
        settings.login_attempts = 1;
        http.limits.per_minute = 2;
    })
    .await;
    for email in ["a@example.org", "b@example.org"] {
        attempt(&app, email, PASSWORD).await.assert_error(401, "INVALID_CREDENTIALS");
    }
    let refused = attempt(&app, "c@example.org", PASSWORD).await;
    refused.assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!((refused.header("retry-after"), refused.header("ratelimit-remaining")), ("60", "0"));
}

#[tokio::test]
async fn a_client_that_guesses_at_many_mailboxes_has_to_wait() {
    let (app, ..) = App::with_ann_and_bob().await;
    for n in 0..50 {
        let email = format!("user{n}@example.org");
        attempt(&app, &email, "wrong horse").await.assert_error(401, "INVALID_CREDENTIALS");
    }
    let refused = attempt(&app, "ann@example.org", PASSWORD).await;
    refused.assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!(refused.header("retry-after"), "30");
    app.clock.advance(Duration::from_secs(30));
    attempt(&app, "ann@example.org", PASSWORD).await.assert(StatusCode::OK);
}
