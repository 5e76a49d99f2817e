//! Requests in the metrics, and the listener for monitoring.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use mailapi_http::metrics_router;
use tower::ServiceExt;

use crate::support::App;

async fn ask(app: &App, method: &str, path: &str) {
    app.send(Request::builder().method(method).uri(path).body(Body::empty()).unwrap()).await;
}

#[tokio::test]
async fn requests_are_counted_by_operation_and_never_by_path() {
    let app = App::start().await;
    for (method, path) in [
        ("GET", "/api/v1/tokens/secret-of-a-stranger"),
        ("GET", "/secret-of-a-stranger"),
        ("POST", "/health"),
        ("SECRET-OF-A-STRANGER", "/health"),
        ("HEAD", "/health/live"),
    ] {
        ask(&app, method, path).await;
    }
    app.get(&app.admin, "/tokens").await;
    let text = app.service.scrape().await;
    for labels in [
        r#"operation="get_token",method="GET",status="401""#,
        r#"operation="none",method="GET",status="404""#,
        r#"operation="none",method="POST",status="405""#,
        r#"operation="none",method="other",status="405""#,
        r#"operation="get_liveness",method="HEAD",status="200""#,
        r#"operation="list_tokens",method="GET",status="200""#,
    ] {
        let line = format!("mailapi_http_requests_total{{{labels}}} 1\n");
        assert!(text.contains(&line), "{line} is missing from {text}");
    }
    assert!(text.contains("mailapi_http_request_duration_seconds_count{operation=\"list_tokens\"} 1\n"), "{text}");
    assert!(!text.to_lowercase().contains("stranger"), "{text}");
}

#[tokio::test]
async fn the_listener_for_monitoring_has_one_path() {
    let app = App::start().await;
    let router = metrics_router(app.service.clone());
    for (method, path, status) in [
        ("GET", "/", StatusCode::NOT_FOUND),
        ("GET", "/health", StatusCode::NOT_FOUND),
        ("GET", "/api/v1/tokens", StatusCode::NOT_FOUND),
        ("POST", "/metrics", StatusCode::METHOD_NOT_ALLOWED),
        ("GET", "/metrics", StatusCode::OK),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status, "{method} {path}");
        let is_text = answer.headers().get("content-type").is_some_and(|kind| kind == mailapi_metrics::CONTENT_TYPE);
        assert_eq!(is_text, status == StatusCode::OK);
    }
}
