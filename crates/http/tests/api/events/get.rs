//! `GET /events/{id}`.

use axum::http::StatusCode;
use mailapi_model::Permission;

use super::{list, send};
use crate::support::App;

#[tokio::test]
async fn to_strangers_an_event_does_not_exist() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    send(&app, &ann, &["bob@example.org"]).await;
    let listed = list(&app, &ann, "?after=start&types=message.accepted").await;
    let path = format!("/events/{}", listed["events"][0]["id"].as_str().unwrap());
    app.get(&bob, &path).await.assert_error(404, "EVENT_NOT_FOUND");
    for id in ["evt_01m7w78fqwemea5qcy6jn7hx3x", "evt_", "x", "%00", "1"] {
        app.get(&app.admin, &format!("/events/{id}")).await.assert_error(404, "EVENT_NOT_FOUND");
    }
    app.grant("bob@example.org", Permission::ViewStats, "example.org").await;
    for caller in [&ann, &bob, &app.admin] {
        let found = app.get(caller, &path).await.assert(StatusCode::OK);
        assert_eq!(found["event"], listed["events"][0]);
    }
}

#[tokio::test]
async fn an_event_has_the_same_bytes_in_every_channel() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let id = send(&app, &ann, &["bob@example.org"]).await;
    let listed = app.get(&ann, &format!("/events?after=start&message_id={id}")).await;
    let event_id = listed.json()["events"][0]["id"].as_str().unwrap().to_owned();
    let found = app.get(&ann, &format!("/events/{event_id}")).await;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let body = text(&found.bytes);
    let body = body.strip_prefix("{\"success\":true,\"event\":").and_then(|rest| rest.strip_suffix('}')).unwrap();
    assert!(
        body.starts_with(&format!("{{\"id\":\"{event_id}\",\"type\":\"message.accepted\",\"timestamp\":")),
        "{body}"
    );
    assert!(text(&listed.bytes).contains(body));
    let timeline = app.get(&ann, &format!("/mail/{id}/timeline")).await;
    assert!(text(&timeline.bytes).contains(body));
    let mut stream = app.stream(&ann, "?after=start&types=message.*", "").await;
    assert_eq!(app.while_reading_events(stream.event()).await.unwrap().data, body);
}
