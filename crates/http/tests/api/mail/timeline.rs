//! `GET /mail/{message_id}/timeline`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::{Value, json};

use crate::events::{send, types};
use crate::support::{App, EVE};

async fn timeline(app: &App, token: &str, id: &str, query: &str) -> Value {
    app.get(token, &format!("/mail/{id}/timeline{query}")).await.assert(StatusCode::OK)
}

#[tokio::test]
async fn to_strangers_a_message_does_not_exist() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let id = send(&app, &ann, &["bob@example.org"]).await;
    app.get(&bob, &format!("/mail/{id}/timeline")).await.assert_error(404, "MESSAGE_NOT_FOUND");
    for id in ["67e55044-10b1-426f-9247-bb680e5fe0c8", "x", "%00"] {
        app.get(&ann, &format!("/mail/{id}/timeline")).await.assert_error(404, "MESSAGE_NOT_FOUND");
    }
    let answer = app.get(&ann, &format!("/mail/{id}/timeline?after=now&limit=x")).await;
    assert_eq!(answer.assert_invalid(), ["after", "limit"]);
    app.grant("bob@example.org", Permission::ViewStats, "example.org").await;
    for caller in [&ann, &bob, &app.admin] {
        assert_eq!(types(&timeline(&app, caller, &id, "").await), ["message.accepted"]);
    }
}

#[tokio::test]
async fn a_message_has_its_events_in_order() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let id = send(&app, &ann, &["bob@example.org", EVE]).await;
    send(&app, &ann, &["bob@example.org"]).await;
    app.sync().await;
    app.read_events().await;
    let all = timeline(&app, &ann, &id, "").await;
    assert_eq!((&all["message_id"], &all["has_more"]), (&json!(id), &json!(false)));
    assert_eq!(types(&all)[0], "message.accepted", "{all}");
    let mut later = types(&all)[1..].to_vec();
    later.sort_unstable();
    assert_eq!(later, ["message.deferred", "message.delivered"], "{all}");

    let first = timeline(&app, &ann, &id, "?limit=1").await;
    assert_eq!((types(&first).len(), &first["has_more"]), (1, &json!(true)));
    let rest = timeline(&app, &ann, &id, &format!("?after={}", first["cursor"].as_str().unwrap())).await;
    let both = [&first, &rest].map(|page| page["events"].as_array().unwrap().clone()).concat();
    assert_eq!(all["events"], json!(both));
}
