//! Rules for all errors, independent of their source.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};

use crate::support::{App, PANICS, api};

#[tokio::test]
async fn an_unknown_path_is_an_envelope() {
    let app = App::start().await;
    for path in
        ["/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/mail/sent/", "/mail/sent", "/docs/x", "/api/v2/users"]
    {
        let answer = app.send(Request::get(path).body(Body::empty()).unwrap()).await;
        answer.assert_error(404, "NOT_FOUND");
        assert_eq!(answer.header("content-type"), "application/json", "{path}");
    }
}

#[tokio::test]
async fn an_unsupported_method_gets_405_with_an_allow_header() {
    let app = App::start().await;
    for (method, path, allow) in [
        (Method::PATCH, "/users", "GET,HEAD,POST"),
        (Method::DELETE, "/mail/send", "POST"),
        (Method::GET, "/mail/send", "POST"),
        (Method::POST, "/tokens/7", "GET,HEAD,PUT,DELETE"),
        (Method::OPTIONS, "/mail/sent", "GET,HEAD"),
    ] {
        let answer = app.send(api(method.clone(), path).body(Body::empty()).unwrap()).await;
        answer.assert_error(405, "METHOD_NOT_ALLOWED");
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
}

#[tokio::test]
async fn a_token_is_asked_for_before_anything_else_is_looked_at() {
    let app = App::start().await;
    let send = |value: Option<&'static str>| {
        let request = api(Method::POST, "/mail/send").header("content-type", "text/plain");
        let request = value.into_iter().fold(request, |request, value| request.header("X-MAILAPI-TOKEN", value));
        app.send(request.body(Body::from("not JSON")).unwrap())
    };
    send(None).await.assert_error(401, "NO_API_TOKEN");
    send(Some("")).await.assert_error(401, "NO_API_TOKEN");
    let unknown = send(Some("mapi_0000000000000000000000000000000000000000000")).await;
    unknown.assert_error(401, "INVALID_TOKEN");
    assert!(!unknown.header("www-authenticate").is_empty());
    send(Some("x' OR 1=1 --")).await.assert_error(401, "INVALID_TOKEN");
    let request = api(Method::GET, "/mail/sent").header("X-MAILAPI-TOKEN", &b"\xff\xfe"[..]).body(Body::empty());
    app.send(request.unwrap()).await.assert_error(401, "INVALID_TOKEN");
}

#[tokio::test]
async fn a_panic_is_an_internal_error_that_shows_nothing() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let answer = app.get(&ann, &format!("/mailbox/ann@example.org/messages?folder={PANICS}")).await;
    let message = answer.assert_error(500, "INTERNAL_ERROR");
    assert!(!message.contains("bug"), "{message}");
    assert!(!answer.header("x-request-id").is_empty() && !answer.header("ratelimit-limit").is_empty());
    app.get(&ann, "/mailbox/ann@example.org/messages").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn a_lost_database_is_unavailable_and_its_error_is_hidden() {
    let app = App::start().await;
    app.store.close().await;
    let message = app.get(&app.admin, "/users").await.assert_error(503, "SERVICE_UNAVAILABLE");
    assert!(!message.to_lowercase().contains("sqlite"), "{message}");
}
