//! Rules for every request: its identifier, and headers that prevent caching and content sniffing.

use axum::body::Body;
use axum::http::{Method, Request};

use crate::support::{App, api};

#[tokio::test]
async fn every_answer_has_an_id_and_keeps_a_sane_one_of_the_caller() {
    let app = App::start().await;
    let name = async |path: &str, own: Option<&str>| {
        let request = own.into_iter().fold(Request::get(path), |request, own| request.header("X-Request-Id", own));
        app.send(request.body(Body::empty()).unwrap()).await.header("x-request-id").to_owned()
    };
    let paths = ["/health", "/openapi.json", "/nothing", "/api/v1/users", "/docs"];
    let mut seen = std::collections::HashSet::new();
    for path in paths {
        assert_eq!(name(path, Some("job-17.3:a_B")).await, "job-17.3:a_B");
        for insane in [None, Some(""), Some("a b"), Some("<script>"), Some(&*"x".repeat(129))] {
            let given = name(path, insane).await;
            assert_eq!(given.len(), 36, "{path} {insane:?}");
            assert!(seen.insert(given), "no two requests have the same name");
        }
    }
}

#[tokio::test]
async fn answers_stay_out_of_caches() {
    let app = App::start().await;
    let answer = app.get(&app.admin, "/tokens/me").await;
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn a_head_request_gets_the_head_of_the_answer() {
    let app = App::start().await;
    let request = api(Method::HEAD, "/users").header("X-MAILAPI-TOKEN", &app.admin).body(Body::empty());
    let answer = app.send(request.unwrap()).await;
    assert_eq!((answer.status.as_u16(), answer.bytes.len()), (200, 0));
}

#[tokio::test]
async fn a_request_with_two_tokens_is_refused() {
    let app = App::start().await;
    for (first, second) in [(app.admin.as_str(), app.admin.as_str()), (&app.admin, "mapi_other"), ("", &app.admin)] {
        let request = api(Method::GET, "/users").header("X-MAILAPI-TOKEN", first).header("X-MAILAPI-TOKEN", second);
        app.send(request.body(Body::empty()).unwrap()).await.assert_error(401, "INVALID_TOKEN");
    }
}
