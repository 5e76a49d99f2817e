//! `GET /events/stream`.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use mailapi_http::HttpSettings;
use mailapi_model::{Permission, TokenKind};
use serde_json::json;

use super::{list, newest, send};
use crate::support::{App, api, token};

/// Time between comments in tests that wait for them.
const SOON: Duration = Duration::from_millis(10);

#[tokio::test]
async fn what_breaks_a_rule_is_named() {
    let app = App::start().await;
    let answer = app.get(&app.admin, "/events/stream?after=x&types=x&domain=-&mailbox=-&message_id=x").await;
    assert_eq!(answer.assert_invalid(), ["after", "types", "domain", "mailbox", "message_id"]);
    for id in ["x", "-1", "\u{e4}"] {
        let request = api(Method::GET, "/events/stream").header("X-MAILAPI-TOKEN", &app.admin);
        let request = request.header("Last-Event-ID", id.as_bytes()).body(Body::empty()).unwrap();
        assert_eq!(app.send(request).await.assert_invalid(), ["Last-Event-ID"]);
    }
}

#[tokio::test]
async fn the_stream_of_another_mailbox_or_domain_is_refused() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    for query in ["mailbox=ann@example.org", "domain=other.example"] {
        app.get(&bob, &format!("/events/stream?{query}")).await.assert_error(403, "ACCESS_DENIED");
    }
}

#[tokio::test]
async fn a_token_has_five_streams_and_others_have_theirs() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(app.stream(&ann, "", "").await);
    }
    let refused = app.get(&ann, "/events/stream").await;
    refused.assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!(refused.header("retry-after"), "15");
    app.stream(&bob, "", "").await;
    open.pop();
    app.stream(&ann, "", "").await;
}

#[tokio::test]
async fn the_sessions_of_a_mailbox_share_fifty_streams() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    let mut open = Vec::new();
    for _ in 0..10 {
        let session = app.log_in("ann@example.org").await;
        for _ in 0..5 {
            open.push(app.stream(&session, "", "").await);
        }
    }
    let session = app.log_in("ann@example.org").await;
    app.get(&session, "/events/stream").await.assert_error(429, "RATE_LIMIT_EXCEEDED");
    app.stream(&bob, "", "").await;
    open.pop();
    app.stream(&session, "", "").await;
}

#[tokio::test]
async fn events_arrive_as_they_are_logged_and_a_client_resumes() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let before = newest(&app).await;
    let mut stream = app.stream(&ann, "?types=message.*", "").await;
    let greeting = stream.block().await.unwrap();
    assert!(greeting.is_comment && greeting.event.is_empty(), "{greeting:?}");
    assert_eq!(greeting.id, before, "a client that receives no event can resume");

    let first = send(&app, &ann, &["bob@example.org"]).await;
    let event = app.while_reading_events(stream.event()).await.unwrap();
    assert_eq!((event.event.as_str(), event.json()["type"].as_str()), ("message.accepted", Some("message.accepted")));
    assert_eq!(event.json()["data"]["message_id"], first);
    let listed = list(&app, &ann, &format!("?after={before}&types=message.*&limit=1")).await;
    assert_eq!((&listed["cursor"], &listed["events"][0]), (&json!(event.id), &event.json()));
    let last_id = stream.last_id.clone();
    drop(stream);

    app.sync().await;
    let second = send(&app, &ann, &["bob@example.org"]).await;
    // The header replaces `after`, with which a client opened its first stream.
    let mut resumed = app.stream(&ann, "?types=message.*&after=start", &last_id).await;
    for (event_type, id) in [("message.delivered", first), ("message.accepted", second)] {
        let event = app.while_reading_events(resumed.event()).await.unwrap();
        assert_eq!((event.event.as_str(), &event.json()["data"]["message_id"]), (event_type, &json!(id)));
    }
}

#[tokio::test]
async fn a_stream_that_resumes_in_another_log_gets_what_is_kept() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    // The events are in memory, too.
    let mut open = app.stream(&app.admin, "", "").await;
    send(&app, &ann, &["bob@example.org"]).await;
    app.while_reading_events(open.event()).await.unwrap();
    let whole = list(&app, &app.admin, "?after=start").await;
    let count = whole["events"].as_array().unwrap().len();
    for foreign in [format!("{count}-00000000"), format!("{}-00000000", count - 1), "999999-00000000".to_owned()] {
        let mut stream = app.stream(&app.admin, "", &foreign).await;
        let first = app.while_reading_events(stream.event()).await.unwrap();
        assert_eq!(first.event, "truncated", "{foreign}");
        for expected in whole["events"].as_array().unwrap() {
            let event = app.while_reading_events(stream.event()).await.unwrap();
            assert_eq!(&event.json(), expected, "{foreign}");
        }
    }
}

#[tokio::test]
async fn a_stream_without_events_has_comments() {
    assert_eq!(HttpSettings::default().comment_interval, Duration::from_secs(15));
    let app = App::with(|_, http| http.comment_interval = SOON).await;
    app.domain("example.org").await;
    let (ann, bob) = (app.user("ann@example.org").await, app.user("bob@example.org").await);
    let mut stream = app.stream(&bob, "?types=message.accepted", "").await;
    send(&app, &ann, &["bob@example.org"]).await;
    // A client resumes after events that it does not see.
    let newest = newest(&app).await;
    loop {
        let comment = app.while_reading_events(stream.block()).await.unwrap();
        assert!(comment.is_comment && comment.event.is_empty() && comment.data.is_empty(), "{comment:?}");
        if comment.id == newest {
            break;
        }
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let id = app.get(&ann, "/tokens/me").await.json()["id"].clone();
    let second = token(&app.service, TokenKind::User, Some("ann@example.org")).await;
    let mut stream = app.stream(&ann, "?types=message.*", "").await;
    stream.block().await.unwrap();
    app.delete(&app.admin, &format!("/tokens/{id}")).await.assert(StatusCode::OK);
    send(&app, &second, &["bob@example.org"]).await;
    assert_eq!(app.while_reading_events(stream.event()).await, None);
}

#[tokio::test]
async fn a_stream_without_events_ends_with_its_session_too() {
    let app = App::with(|_, http| http.comment_interval = SOON).await;
    app.domain("example.org").await;
    app.user("ann@example.org").await;
    let session = app.log_in("ann@example.org").await;
    let mut stream = app.stream(&session, "?types=webhook.*", "").await;
    let inactivity = app.service.settings().session_inactivity;
    for _ in 0..3 {
        app.clock.advance(inactivity / 3);
        assert!(stream.block().await.unwrap().is_comment);
    }
    // The comments were no uses of the session.
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(stream.event().await, None);
}

#[tokio::test]
async fn a_right_that_is_withdrawn_ends_its_events() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.grant("bob@example.org", Permission::ViewStats, "example.org").await;
    let mut stream = app.stream(&bob, "?types=message.accepted", "").await;
    let seen = send(&app, &ann, &["bob@example.org"]).await;
    let event = app.while_reading_events(stream.event()).await.unwrap();
    assert_eq!(event.json()["data"]["message_id"], seen);
    let held = app.get(&app.admin, "/permissions?email=bob@example.org").await.json();
    let permission = format!("/permissions/{}", held["permissions"][0]["id"]);
    app.delete(&app.admin, &permission).await.assert(StatusCode::OK);
    send(&app, &ann, &["bob@example.org"]).await;
    let body = json!({ "from": "bob@example.org", "to": ["ann@example.org"], "body": { "text": "Hello" } });
    let own = app.post(&bob, "/mail/send", body).await.assert(StatusCode::ACCEPTED)["message_id"].clone();
    let event = app.while_reading_events(stream.event()).await.unwrap();
    assert_eq!(event.json()["data"]["message_id"], own, "bob's own events go on");
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_is_closed_and_resumes() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let mut stream = app.stream(&ann, "?types=message.*", "").await;
    stream.block().await.unwrap();
    // More recipients than a stream may be behind, each with an event.
    let recipients: Vec<String> = (0..300).map(|number| format!("user{number}@elsewhere.example")).collect();
    send(&app, &ann, &recipients.iter().map(String::as_str).collect::<Vec<_>>()).await;
    app.sync().await;
    app.read_events().await;
    assert_eq!(stream.event().await, None);
    let mut resumed = app.stream(&ann, "?types=message.delivered", &stream.last_id).await;
    for _ in 0..300 {
        assert_eq!(app.while_reading_events(resumed.event()).await.unwrap().event, "message.delivered");
    }
}

#[tokio::test]
async fn a_position_that_is_no_longer_kept_is_reported() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for _ in 0..3 {
        send(&app, &ann, &["bob@example.org"]).await;
    }
    app.clock.advance(Duration::from_secs(60));
    app.store.events().prune(app.now(), app.now(), 1000).await.unwrap();
    let mut stream = app.stream(&app.admin, "?after=0", "").await;
    let truncated = app.while_reading_events(stream.event()).await.unwrap();
    assert_eq!((truncated.event.as_str(), truncated.json()), ("truncated", json!({})));
    assert!(!app.while_reading_events(stream.event()).await.unwrap().id.is_empty(), "the oldest event follows");
}
