//! `GET /events`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_model::{Permission, TokenKind};
use serde_json::{Value, json};

use super::{list, newest, send, types};
use crate::support::{App, EVE, token};

#[tokio::test]
async fn every_parameter_that_breaks_a_rule_is_named() {
    let app = App::start().await;
    let query = "after=soon&types=message.opened&domain=-&mailbox=-&message_id=x&limit=0&wait=long";
    let answer = app.get(&app.admin, &format!("/events?{query}")).await;
    assert_eq!(answer.assert_invalid(), ["after", "types", "domain", "mailbox", "message_id", "limit", "wait"]);
    for query in [
        "after=",
        "after=-1",
        "after=01",
        "after=1-x",
        "after=0-00000000",
        "types=",
        "types=message.*,",
        "types=*.accepted",
        "limit=-1",
    ] {
        let name = query.split('=').next().unwrap();
        assert_eq!(app.get(&app.admin, &format!("/events?{query}")).await.assert_invalid(), [name], "{query}");
    }
}

#[tokio::test]
async fn events_of_others_are_refused_and_never_listed() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    send(&app, &ann, &["bob@example.org"]).await;
    for query in ["mailbox=ann@example.org", "mailbox=nobody@other.example", "domain=other.example"] {
        app.get(&bob, &format!("/events?{query}")).await.assert_error(403, "ACCESS_DENIED");
    }
    for query in ["", "&domain=example.org", "&mailbox=bob@example.org", "&types=message.accepted"] {
        let listed = list(&app, &bob, &format!("?after=start{query}")).await;
        assert!(!types(&listed).contains(&"message.accepted"), "{query}: {listed}");
    }
    let sent = |listed: &Value| types(listed).iter().filter(|name| **name == "message.accepted").count();
    for query in ["", "&domain=example.org", "&mailbox=ann@example.org"] {
        for caller in [&ann, &app.admin] {
            assert_eq!(sent(&list(&app, caller, &format!("?after=start{query}")).await), 1, "{query}");
        }
    }
    app.grant("bob@example.org", Permission::ViewStats, "example.org").await;
    assert_eq!(sent(&list(&app, &bob, "?after=start&mailbox=ann@example.org").await), 1, "a delegate sees it");
}

#[tokio::test]
async fn a_reader_by_cursor_gets_each_event_once_and_in_order() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let before = newest(&app).await;
    let id = send(&app, &ann, &["bob@example.org", EVE]).await;
    app.sync().await;
    app.read_events().await;
    let all = list(&app, &ann, &format!("?after={before}&types=message.*")).await;
    let (events, found) = (all["events"].as_array().unwrap(), types(&all));
    assert_eq!(found[0], "message.accepted", "{all}");
    assert!(found.contains(&"message.delivered") && found.contains(&"message.deferred"), "{all}");
    assert!(events.iter().all(|event| event["data"]["message_id"] == id.as_str()), "{all}");
    assert_eq!((&all["has_more"], &all["truncated"]), (&json!(false), &json!(false)));

    let (mut cursor, mut seen) = (before, Vec::new());
    for _ in 0..=events.len() {
        let page = list(&app, &ann, &format!("?after={cursor}&types=message.*&limit=1")).await;
        seen.extend(page["events"].as_array().unwrap().clone());
        cursor = page["cursor"].as_str().unwrap().to_owned();
    }
    assert_eq!(&seen, events);
    let rest = list(&app, &ann, &format!("?after={cursor}")).await;
    assert_eq!((types(&rest).len(), &rest["cursor"]), (0, &json!(cursor)));
    assert_eq!(types(&list(&app, &ann, "").await).len(), 0, "a request without a position begins now");
}

#[tokio::test]
async fn filters_find_what_they_name() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let first = send(&app, &ann, &["bob@example.org"]).await;
    let second = send(&app, &ann, &["bob@example.org"]).await;
    app.sync().await;
    app.read_events().await;
    let one = list(&app, &ann, &format!("?after=start&message_id={first}")).await;
    assert_eq!(types(&one), ["message.accepted", "message.delivered"]);
    assert!(!one.to_string().contains(&second));
    let delivered = list(&app, &app.admin, "?after=start&types=message.delivered").await;
    assert_eq!(types(&delivered), ["message.delivered"; 2]);
    let both = list(&app, &app.admin, "?after=start&types=message.accepted,message.delivered").await;
    assert_eq!(types(&both).len(), 4);
    let none = list(&app, &app.admin, "?after=start&types=webhook.*").await;
    assert_eq!(types(&none).len(), 0);
}

#[tokio::test]
async fn a_position_that_is_no_longer_kept_is_reported() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for _ in 0..3 {
        send(&app, &ann, &["bob@example.org"]).await;
    }
    app.clock.advance(Duration::from_secs(60));
    app.store.events().prune(app.now(), app.now(), 1000).await.unwrap();
    let listed = list(&app, &app.admin, "?after=0").await;
    assert_eq!((&listed["truncated"], types(&listed).len()), (&json!(true), 1), "the newest event is always kept");
    let kept = list(&app, &app.admin, "?after=start").await;
    assert_eq!((&kept["truncated"], &kept["events"]), (&json!(false), &listed["events"]));
    let beyond = list(&app, &app.admin, "?after=999999").await;
    assert_eq!(beyond["truncated"], true, "no log that this server has was ever so long");
    assert_eq!(beyond["events"], listed["events"], "and the reader gets what is kept");
}

#[tokio::test]
async fn a_cursor_of_another_log_is_reported_and_skips_nothing() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    send(&app, &ann, &["bob@example.org"]).await;
    app.read_events().await;
    let whole = list(&app, &app.admin, "?after=start").await;
    let cursor = newest(&app).await;
    let (number, _) = cursor.split_once('-').expect("the end of the event's id");
    assert_eq!(number, types(&whole).len().to_string());
    // The number exists in both logs.
    let foreign = format!("{number}-00000000");
    let listed = list(&app, &app.admin, &format!("?after={foreign}&wait=30")).await;
    assert_eq!((&listed["truncated"], &listed["events"]), (&json!(true), &whole["events"]));
    assert_eq!(listed["cursor"], cursor);
    // Older versions gave out the number alone.
    for own in [number, &cursor] {
        let listed = list(&app, &app.admin, &format!("?after={own}")).await;
        assert_eq!((&listed["truncated"], types(&listed).len()), (&json!(false), 0), "{own}");
        assert_eq!(listed["cursor"], cursor, "{own}");
    }
}

#[tokio::test]
async fn a_wait_ends_with_the_next_event() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let path = format!("/events?after={}&types=message.*&wait=30", newest(&app).await);
    let waiting = app.while_reading_events(app.get(&ann, &path));
    let (answer, id) = tokio::join!(waiting, send(&app, &ann, &["bob@example.org"]));
    let listed = answer.assert(StatusCode::OK);
    assert_eq!(types(&listed), ["message.accepted"]);
    assert_eq!(listed["events"][0]["data"]["message_id"], id);
}

#[tokio::test]
async fn a_wait_in_vain_returns_the_position() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let before = newest(&app).await;
    send(&app, &ann, &["bob@example.org"]).await;
    let path = format!("/events?after={before}&types=message.accepted&wait=1");
    let listed = app.while_reading_events(app.get(&bob, &path)).await.assert(StatusCode::OK);
    assert_eq!(types(&listed).len(), 0, "events of others do not end the wait");
    assert_eq!(listed["cursor"], newest(&app).await, "the next request does not examine them again");
}

#[tokio::test]
async fn a_token_that_ends_during_its_wait_gets_no_event() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let id = app.get(&ann, "/tokens/me").await.json()["id"].clone();
    let second = token(&app.service, TokenKind::User, Some("ann@example.org")).await;
    let path = format!("/events?after={}&types=message.*&wait=30", newest(&app).await);
    let waiting = app.while_reading_events(app.get(&ann, &path));
    let (answer, ()) = tokio::join!(waiting, async {
        // The request is authenticated before it waits, and this one comes after it.
        app.get(&app.admin, "/events").await.assert(StatusCode::OK);
        app.delete(&app.admin, &format!("/tokens/{id}")).await.assert(StatusCode::OK);
        send(&app, &second, &["bob@example.org"]).await;
    });
    answer.assert_error(401, "TOKEN_EXPIRED");
}
