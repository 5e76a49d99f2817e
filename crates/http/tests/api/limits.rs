//! Rate limits per token, or per address without one.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use mailapi_http::RequestLimits;

use crate::support::{Answer, App, api};

fn state(answer: &Answer) -> [&str; 3] {
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"].map(|name| answer.header(name))
}

#[tokio::test]
async fn a_token_has_its_hundred_requests_a_minute_and_no_more() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    for left in (0..100).rev() {
        let answer = app.get(&ann, "/tokens/me").await;
        answer.assert(StatusCode::OK);
        assert_eq!(state(&answer), ["100", &left.to_string(), "60"]);
    }
    app.clock.advance(Duration::from_millis(18_500));
    let refused = app.get(&ann, "/tokens/me").await;
    refused.assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!(state(&refused), ["100", "0", "42"]);
    assert_eq!(refused.header("retry-after"), "42");
    app.get(&bob, "/tokens/me").await.assert(StatusCode::OK);
    app.clock.advance(Duration::from_secs(42));
    app.get(&ann, "/tokens/me").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn an_hour_has_a_limit_of_its_own() {
    let app = App::with(|_, http| http.limits = RequestLimits { per_minute: 5, per_hour: 7 }).await;
    for request in 1..=7 {
        if request == 6 {
            app.clock.advance(Duration::from_secs(60));
        }
        app.get(&app.admin, "/users").await.assert(StatusCode::OK);
    }
    let refused = app.get(&app.admin, "/users").await;
    refused.assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!((state(&refused), refused.header("retry-after")), (["7", "0", "3540"], "3540"));
}

#[tokio::test]
async fn errors_count_and_show_the_state_too() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for (path, left) in [("/domains/example.org", "99"), ("/mail/x/status", "98"), ("/mail/sent?limit=0", "97")] {
        assert_eq!(state(&app.get(&ann, path).await), ["100", left, "60"], "{path}");
    }
    let unknown = app.get("mapi_unknown", "/users").await;
    assert_eq!(state(&unknown), ["100", "99", "60"], "a token that is not known counts for the address");
}

#[tokio::test]
async fn zero_means_any_number() {
    let app = App::with(|_, http| http.limits = RequestLimits { per_minute: 0, per_hour: 0 }).await;
    for _ in 0..150 {
        app.get(&app.admin, "/tokens/me").await.assert(StatusCode::OK);
    }
}

async fn document(app: &App, forwarded_for: &str) -> u16 {
    let request = Request::get("/openapi.json").header("X-Forwarded-For", forwarded_for);
    app.send(request.body(Body::empty()).unwrap()).await.status.as_u16()
}

#[tokio::test]
async fn without_a_token_the_client_address_is_limited() {
    let limits = RequestLimits { per_minute: 2, per_hour: 0 };
    let app = App::with(|_, http| http.limits = limits).await;
    let answers =
        [document(&app, "192.0.2.1").await, document(&app, "192.0.2.2").await, document(&app, "192.0.2.3").await];
    assert_eq!(answers, [200, 200, 429], "what a stranger claims makes no difference");

    let peer = IpAddr::V4(Ipv4Addr::UNSPECIFIED).to_string().parse().unwrap();
    let app = App::with(|_, http| (http.limits, http.trusted_proxies) = (limits, vec![peer])).await;
    let answers =
        [document(&app, "192.0.2.1").await, document(&app, "192.0.2.1").await, document(&app, "192.0.2.1").await];
    assert_eq!(answers, [200, 200, 429]);
    assert_eq!(document(&app, "192.0.2.2").await, 200);
}

#[tokio::test]
async fn guessing_tokens_ends_with_the_limit_of_the_address() {
    let app = App::with(|_, http| http.limits = RequestLimits { per_minute: 3, per_hour: 0 }).await;
    for guess in ["mapi_one", "mapi_two", "maps_three"] {
        app.get(guess, "/users").await.assert_error(401, "INVALID_TOKEN");
    }
    let refused = app.get("mapi_four", "/users").await;
    refused.assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!((state(&refused), refused.header("retry-after")), (["3", "0", "60"], "60"));
    assert_eq!(document(&app, "").await, 429, "nothing is left for requests without a token either");
    app.clock.advance(Duration::from_secs(60));
    app.get("mapi_five", "/users").await.assert_error(401, "INVALID_TOKEN");
}

#[tokio::test]
async fn guesses_do_not_use_up_limits_of_tokens_at_the_address() {
    let app = App::with(|_, http| http.limits = RequestLimits { per_minute: 3, per_hour: 0 }).await;
    for _ in 0..5 {
        app.get("mapi_guess", "/users").await;
    }
    for left in ["2", "1", "0"] {
        let answer = app.get(&app.admin, "/users").await;
        answer.assert(StatusCode::OK);
        assert_eq!(state(&answer), ["3", left, "60"]);
    }
}

#[tokio::test]
async fn a_revoked_token_uses_its_own_limit_not_the_addresss() {
    let limits = RequestLimits { per_minute: 3, per_hour: 0 };
    let app = App::with(|_, http| http.limits = limits).await;
    app.domain("example.org").await;
    app.user("ann@example.org").await;
    let session = app.log_in("ann@example.org").await;
    app.post_empty(&session, "/auth/logout").await.assert(StatusCode::OK);
    for _ in 0..2 {
        app.get(&session, "/users").await.assert_error(401, "TOKEN_EXPIRED");
    }
    app.get(&session, "/users").await.assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!(document(&app, "").await, 200);
}

#[tokio::test]
async fn health_is_not_counted() {
    let app = App::with(|_, http| http.limits = RequestLimits { per_minute: 1, per_hour: 1 }).await;
    for _ in 0..5 {
        for path in ["/health", "/health/live"] {
            app.send(Request::get(path).body(Body::empty()).unwrap()).await.assert(StatusCode::OK);
        }
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_count_against_the_address() {
    let app = App::with(|_, http| http.limits.per_minute = 2).await;
    for (method, path, status) in [(Method::GET, "/nowhere", 404), (Method::PATCH, "/auth/login", 405)] {
        let answer = app.send(api(method, path).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
    }
    let answer = app.send(api(Method::GET, "/nowhere").body(Body::empty()).unwrap()).await;
    answer.assert_error(429, "RATE_LIMIT_EXCEEDED");
}
