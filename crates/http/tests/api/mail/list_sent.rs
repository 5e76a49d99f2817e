//! `GET /mail/sent`.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::{App, EVE, GONE, day, elsewhere};

async fn send(app: &App, token: &str, from: &str, subject: &str, to: &str) {
    let body = json!({ "from": from, "to": [to], "subject": subject, "body": { "text": "Hello" } });
    app.post(token, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    app.clock.advance(Duration::from_secs(3600));
}

async fn subjects(app: &App, token: &str, query: &str) -> String {
    let listed = app.get(token, &format!("/mail/sent{query}")).await.assert(StatusCode::OK);
    let subject = |message: &Value| message["subject"].as_str().unwrap().to_owned();
    listed["messages"].as_array().unwrap().iter().map(subject).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn every_parameter_that_breaks_a_rule_is_named() {
    let app = App::start().await;
    let query = "?status=lost&from=x&recipient=y&start_date=soon&end_date=later&limit=-1&offset=-1";
    let fields = app.get(&app.admin, &format!("/mail/sent{query}")).await.assert_invalid();
    assert_eq!(fields, ["status", "from", "recipient", "start_date", "end_date", "limit", "offset"]);
}

#[tokio::test]
async fn one_sees_what_ones_mailbox_sent_and_an_admin_sees_all() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    send(&app, &ann, "ann@example.org", "one", "bob@example.org").await;
    send(&app, &bob, "bob@example.org", "two", "ann@example.org").await;
    send(&app, &app.admin, "ann@example.org", "three", "bob@example.org").await;
    assert_eq!(subjects(&app, &ann, "").await, "one");
    assert_eq!(subjects(&app, &bob, "").await, "two");
    assert_eq!(subjects(&app, &app.admin, "").await, "three two one");
}

#[tokio::test]
async fn filters_and_pages() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    send(&app, &ann, "ann@example.org", "one", "bob@example.org").await;
    send(&app, &ann, "ann@example.org", "two", GONE).await;
    send(&app, &ann, "ann@example.org", "three", EVE).await;
    let minutes_ago = |minutes: u64| app.ago(Duration::from_secs(minutes * 60));
    let (before_all, after_one, after_two) = (minutes_ago(190), minutes_ago(150), minutes_ago(90));
    // More than a day before the first message, whose day may be yesterday: an end date includes its whole day.
    let day_before = minutes_ago(190 + 25 * 60);
    app.sync().await;
    for (query, expected) in [
        ("?limit=2", "three two"),
        ("?limit=2&offset=2", "one"),
        ("?status=sent", "one"),
        ("?status=bounced", "two"),
        ("?from=ANN@example.org", "three two one"),
        ("?recipient=eve@elsewhere.example", "three"),
        (&format!("?start_date={after_two}"), "three"),
        (&format!("?start_date={before_all}&end_date={}", elsewhere(after_one)), "one"),
        (&format!("?start_date={}", after_two.to_string().trim_end_matches('Z')), "three"),
        (&format!("?end_date={}", day(day_before)), ""),
        (&format!("?start_date={}&end_date={}", day(before_all), day(app.now())), "three two one"),
    ] {
        assert_eq!(subjects(&app, &ann, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn an_item_has_its_shape() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let now = app.now().to_string();
    send(&app, &ann, "Ann <ann@example.org>", "one", "Bob <bob@example.org>").await;
    let mut listed = app.get(&ann, "/mail/sent").await.assert(StatusCode::OK);
    listed["messages"][0]["message_id"].take();
    let expected = json!({
        "success": true, "total": 1, "limit": 50, "offset": 0, "messages": [{
            "message_id": null, "from": "ann@example.org", "to": ["bob@example.org"], "subject": "one",
            "status": "submitted", "created_at": now, "submitted_at": now,
        }],
    });
    assert_eq!(listed, expected);
}
