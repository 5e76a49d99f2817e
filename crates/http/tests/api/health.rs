//! `GET /health`, `GET /health/live` and `GET /health/ready`.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::support::{Answer, App};

async fn ask(app: &App, path: &str) -> Answer {
    app.send(Request::get(path).body(Body::empty()).unwrap()).await
}

/// Returns the expected checks; `log` only if the mail server has one.
async fn checks(app: &App, mail: &str) -> Value {
    let mut checks = json!({ "database": "ok", "smtp": mail, "imap": mail });
    if app.mail_server.backend().delivery_feed.check().await.is_some() {
        checks["log"] = json!("ok");
    }
    checks
}

#[tokio::test]
async fn a_failing_part_degrades_health_and_its_error_is_hidden() {
    let app = App::start().await;
    app.trouble.go_down();
    let answer = ask(&app, "/health").await;
    let body = answer.assert(StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body["checks"], checks(&app, "unavailable").await);
    assert_eq!((&body["success"], &body["status"]), (&json!(false), &json!("degraded")));
    assert!(!body.to_string().contains("192.0.2.1"), "{body}");
    ask(&app, "/health/live").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn all_is_well() {
    let app = App::start().await;
    app.clock.advance(Duration::from_secs(90));
    let body = ask(&app, "/health").await.assert(StatusCode::OK);
    let expected = json!({
        "success": true, "status": "ok", "version": env!("CARGO_PKG_VERSION"), "uptime_seconds": 90,
        "checks": checks(&app, "ok").await,
    });
    assert_eq!(body, expected);
    assert_eq!(ask(&app, "/health/live").await.json(), json!({ "success": true, "status": "ok" }));
}

#[tokio::test]
async fn a_result_is_given_again_for_a_while() {
    let app = App::start().await;
    ask(&app, "/health").await.assert(StatusCode::OK);
    app.trouble.go_down();
    ask(&app, "/health").await.assert(StatusCode::OK);
    app.clock.advance(Duration::from_secs(10));
    ask(&app, "/health").await.assert(StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn readiness_names_what_sends_and_log_ins_miss() {
    let app = App::start().await;
    let body = ask(&app, "/health/ready").await.assert(StatusCode::OK);
    assert_eq!(body, json!({ "success": true, "status": "ready", "reasons": [] }));
    app.trouble.go_down();
    app.clock.advance(Duration::from_secs(10));
    let body = ask(&app, "/health/ready").await.assert(StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body["reasons"], json!(["smtp"]), "a send and a log-in need no access to mailboxes");
    assert_eq!((&body["error"], &body["status"]), (&json!("SERVICE_UNAVAILABLE"), &json!("not_ready")));
}
