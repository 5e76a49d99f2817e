//! Rules for JSON bodies of all operations.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::support::{App, api};

const PATIENCE: Duration = Duration::from_secs(30);

async fn typed(app: &App, headers: &[(&str, &str)]) -> (u16, String) {
    let request = api(Method::POST, "/domains").header("X-MAILAPI-TOKEN", &app.admin);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let answer = app.send(request.body(Body::from("{}")).unwrap()).await;
    (answer.status.as_u16(), answer.json()["error"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_body_has_to_say_that_it_is_json() {
    let app = App::start().await;
    let refused = (415, "UNSUPPORTED_MEDIA_TYPE".to_owned());
    for headers in [
        &[][..],
        &[("content-type", "text/plain")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/jsonp")],
        &[("content-type", "")],
        &[("content-type", "application/json"), ("content-encoding", "gzip")],
    ] {
        assert_eq!(typed(&app, headers).await, refused, "{headers:?}");
    }
    let read = (422, "VALIDATION_ERROR".to_owned());
    for value in ["application/json", "Application/JSON; charset=utf-8", "application/json;"] {
        assert_eq!(typed(&app, &[("content-type", value)]).await, read, "{value}");
    }
}

#[tokio::test]
async fn invalid_json_is_refused_with_the_line_of_the_mistake() {
    let app = App::start().await;
    for text in [
        &b""[..],
        b" ",
        b"{",
        b"{\"domain\":}",
        b"domain=x",
        b"{'domain':'x'}",
        b"{\"domain\":\"\xff\xfe\"}",
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b"{\"domain\":\"\\ud800\"}",
    ] {
        let message = app.post_text(&app.admin, "/domains", text).await.assert_error(400, "INVALID_JSON");
        assert!(message.contains("line "), "{message}");
    }
    let deep = "[".repeat(60_000);
    app.post_text(&app.admin, "/domains", deep).await.assert_error(400, "INVALID_JSON");
}

#[tokio::test]
async fn json_that_is_no_object_breaks_a_rule() {
    let app = App::start().await;
    for text in ["null", "[]", "\"x\"", "17", "true"] {
        assert_eq!(app.post_text(&app.admin, "/domains", text).await.assert_invalid(), [""]);
    }
}

#[tokio::test]
async fn unknown_members_are_ignored() {
    let app = App::start().await;
    let body = json!({ "domain": "example.org", "unknown": { "deep": [1, null] } });
    app.post(&app.admin, "/domains", body).await.assert(StatusCode::CREATED);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_with_or_without_length() {
    let app = App::with(|_, http| http.max_request_bytes = 100).await;
    let at_limit = format!("{{\"x\":\"{}\"}}", "a".repeat(92));
    app.post_text(&app.admin, "/domains", at_limit.clone()).await.assert_invalid();
    let message = app.post_text(&app.admin, "/domains", format!("{at_limit} ")).await;
    assert!(message.assert_error(413, "PAYLOAD_TOO_LARGE").contains("100"));
    let pieces = (0..3).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 50])));
    let chunked = Body::from_stream(futures_util::stream::iter(pieces));
    app.post_text(&app.admin, "/domains", chunked).await.assert_error(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() {
    let app = App::with(|_, http| http.body_pause = Duration::from_millis(10)).await;
    let stuck = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    app.post_text(&app.admin, "/domains", stuck).await.assert_error(408, "REQUEST_TIMEOUT");
}

#[tokio::test]
async fn a_caller_without_the_right_learns_nothing_of_its_body() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.post_text(&ann, "/domains", "not JSON").await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn json_that_readers_disagree_about_is_refused() {
    let app = App::start().await;
    for text in [r#"{"domain":"a.example","domain":"b.example"}"#, r#"{"domain":"a.example","x":{"y":1,"\u0079":2}}"#] {
        let message = app.post_text(&app.admin, "/domains", text).await.assert_error(400, "INVALID_JSON");
        assert!(message.contains("duplicate member name"), "{message}");
    }
    let deep = format!("{{\"domain\":\"a.example\",\"x\":{}{}}}", "[".repeat(40), "]".repeat(40));
    let message = app.post_text(&app.admin, "/domains", deep).await.assert_error(400, "INVALID_JSON");
    assert!(message.contains("nested too deeply"), "{message}");
}

#[tokio::test]
async fn a_body_of_many_tiny_values_is_refused_early() {
    let app = App::start().await;
    for piece in [r#"{"":0}"#, "[[]]", "0"] {
        let text = format!("{{\"x\":[0{}]}}", format!(",{piece}").repeat(3_000_000));
        app.post_text(&app.admin, "/mail/send", text).await.assert_error(413, "PAYLOAD_TOO_LARGE");
    }
}

/// Bytes of a body that the server reads at a time.
const BATCH: usize = 1000;

/// Returns a body of `bytes` bytes that does not end. The receiver resolves once the server has reserved room for
/// all of them. Each chunk is one batch, and the server polls for the next one after it reserved room for the last.
fn unfinished(bytes: usize) -> (Body, oneshot::Receiver<()>) {
    let (taken, is_taken) = oneshot::channel();
    let mut taken = Some(taken);
    let last = bytes - 4 * (BATCH + 1);
    assert!(last > BATCH);
    let mut lengths = [BATCH + 1, BATCH + 1, BATCH + 1, BATCH + 1, last].into_iter();
    let body = futures_util::stream::poll_fn(move |_| match lengths.next() {
        Some(length) => Poll::Ready(Some(Ok::<_, std::io::Error>(Bytes::from(vec![b' '; length])))),
        None => {
            taken.take().map(|taken| taken.send(()));
            Poll::Pending
        }
    });
    (Body::from_stream(body), is_taken)
}

#[tokio::test]
async fn each_byte_of_a_large_body_takes_room() {
    const HALF: usize = 5 * (BATCH + 1);
    for (held, code) in [(HALF, "INVALID_JSON"), (HALF + 1, "SERVICE_UNAVAILABLE")] {
        let app = App::with(|_, http| {
            http.long_work_bytes = BATCH;
            http.max_request_bytes_in_flight = 2 * HALF;
        })
        .await;
        app.domain("example.org").await;
        let (ann, bob) = (app.user("ann@example.org").await, app.user("bob@example.org").await);
        let (body, is_taken) = unfinished(held);
        let mut first = pin!(app.post_text(&ann, "/mail/send", body));
        tokio::select! {
            _ = &mut first => panic!("the body does not end"),
            taken = timeout(PATIENCE, is_taken) => taken.expect("in time").unwrap(),
        }
        let second = app.post_text(&bob, "/mail/send", vec![b' '; HALF]).await;
        assert_eq!(second.json()["error"], code, "{held} bytes held");
    }
}
