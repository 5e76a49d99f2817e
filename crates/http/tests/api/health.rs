//! `GET /health`, `GET /health/live` and `GET /health/ready`.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use mailapi_model::Clock as _;
use mailapi_tls::ServerTls;
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
    assert_eq!(body["reasons"], json!(["smtp"]), "a send and a login need no access to mailboxes");
    assert_eq!((&body["error"], &body["status"]), (&json!("SERVICE_UNAVAILABLE"), &json!("not_ready")));
}

#[tokio::test]
async fn the_certificate_is_described_and_degrades_nothing() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let tls = ServerTls::empty();
    let app = App::with(|_, http| http.tls = Some(tls.clone())).await;
    // In front of real servers, the clock begins with the present.
    let now = Duration::from_secs(app.clock.now().as_seconds().unsigned_abs());
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = rcgen::CertificateParams::new(vec!["mx.example".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (epoch + now - 20 * DAY, epoch + now + 80 * DAY);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let word_after = async |days: u32| {
        app.clock.advance(Duration::from_secs(10) + days * DAY);
        ask(&app, "/health").await.assert(StatusCode::OK)["checks"]["certificate"].clone()
    };
    assert_eq!(word_after(0).await, "missing");
    tls.replace(certificate.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    assert_eq!([word_after(0).await, word_after(75).await, word_after(10).await], ["ok", "expires_soon", "expired"]);
}
