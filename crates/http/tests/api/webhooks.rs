//! Webhooks: their records, and who sees what.

use axum::http::StatusCode;
use mailapi_model::{EmailAddress, Secret, WebhookAuthor, WebhookSigning};
use mailapi_service::events::EventCursor;
use mailapi_store::{NewWebhook, WebhookLimits};
use serde_json::{Value, json};

use crate::support::App;

/// A receiver on this machine, where nothing listens.
const NOWHERE: &str = "http://127.0.0.1:1/hook";

async fn made(app: &App, body: Value) -> Value {
    app.post(&app.admin, "/webhooks", body).await.assert(StatusCode::CREATED)
}

/// Stores a webhook of Ann's. Through the API, its receiver would have to be public.
async fn of_ann(app: &App) -> i64 {
    let ann: EmailAddress = "ann@example.org".parse().unwrap();
    let new = NewWebhook {
        url: "https://127.0.0.1:1/".to_owned(),
        types: vec!["*".parse().unwrap()],
        domain: None,
        mailbox: Some(ann.clone()),
        author: WebhookAuthor::User(ann, None),
        description: String::new(),
        signing: WebhookSigning::V1,
        key: Secret::new(vec![7; 32]),
        enabled: true,
        confirmed: true,
        cursor: EventCursor::default(),
        created_at: app.now(),
    };
    app.store.webhooks().insert(&new, WebhookLimits { by_one: 9, of_domain: 9 }).await.unwrap().id.0
}

#[tokio::test]
async fn every_invalid_member_is_named() {
    let app = App::start().await;
    let body = json!({ "url": 1, "types": ["message.opened", "*"], "signing": "v2", "domain": "-", "enabled": "yes" });
    let named = app.post(&app.admin, "/webhooks", body).await.assert_invalid();
    assert_eq!(named, ["url", "types[0]", "domain", "signing", "enabled"]);
    let body = json!({ "url": "https://10.0.0.1/", "types": ["*"] });
    assert_eq!(app.post(&app.admin, "/webhooks", body).await.assert_invalid(), ["url"]);
    let body = json!({ "url": NOWHERE, "types": ["*"], "domain": "nowhere.example" });
    app.post(&app.admin, "/webhooks", body).await.assert_error(404, "DOMAIN_NOT_FOUND");
    let body = json!({ "url": NOWHERE, "types": ["*"], "mailbox": "eve@nowhere.example" });
    app.post(&app.admin, "/webhooks", body).await.assert_error(404, "USER_NOT_FOUND");
    app.get(&app.admin, "/webhooks/1").await.assert_error(404, "WEBHOOK_NOT_FOUND");
    app.get(&app.admin, "/webhooks/x").await.assert_error(404, "WEBHOOK_NOT_FOUND");
}

#[tokio::test]
async fn the_secret_is_returned_once() {
    let app = App::start().await;
    let created = made(&app, json!({ "url": NOWHERE, "types": ["message.*", "domain.verified"] })).await;
    let secret = created["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_"), "{created}");
    let path = format!("/webhooks/{}", created["id"]);
    let listed = app.get(&app.admin, "/webhooks").await.assert(StatusCode::OK);
    let found = app.get(&app.admin, &path).await.assert(StatusCode::OK);
    assert_eq!((&listed["total"], &listed["webhooks"][0]["types"]), (&1.into(), &created["types"]));
    assert_eq!(
        (&found["enabled"], &found["signing"], &found["public_key"]),
        (&true.into(), &"v1".into(), &Value::Null)
    );
    assert!(!format!("{listed}{found}").contains(secret));
    let rotated = app.post_empty(&app.admin, &format!("{path}/rotate")).await.assert(StatusCode::OK);
    assert_ne!(rotated["secret"], created["secret"]);

    let own = json!({ "url": NOWHERE, "types": ["*"], "secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=" });
    assert_eq!(made(&app, own.clone()).await["secret"], own["secret"]);
    let public = made(&app, json!({ "url": NOWHERE, "types": ["*"], "signing": "v1a" })).await;
    assert!(public["secret"].is_null() && public["public_key"].as_str().unwrap().starts_with("whpk_"), "{public}");
}

#[tokio::test]
async fn a_change_leaves_absent_members() {
    let app = App::start().await;
    let created = made(&app, json!({ "url": NOWHERE, "types": ["*"], "description": "Shop" })).await;
    let path = format!("/webhooks/{}", created["id"]);
    let private = json!({ "url": "https://192.168.1.1/" });
    assert_eq!(app.put(&app.admin, &path, private).await.assert_invalid(), ["url"]);
    let off = app.put(&app.admin, &path, json!({ "enabled": false })).await.assert(StatusCode::OK);
    let seen = (&off["url"], &off["description"], &off["enabled"], &off["disabled_reason"]);
    assert_eq!(seen, (&NOWHERE.into(), &"Shop".into(), &false.into(), &"request".into()));
    let on = app.post_empty(&app.admin, &format!("{path}/enable")).await.assert(StatusCode::OK);
    assert_eq!((&on["enabled"], &on["disabled_reason"]), (&true.into(), &Value::Null));
    app.delete(&app.admin, &path).await.assert(StatusCode::OK);
    app.get(&app.admin, &path).await.assert_error(404, "WEBHOOK_NOT_FOUND");
}

#[tokio::test]
async fn members_that_cannot_change_are_refused() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let path = format!("/webhooks/{}", of_ann(&app).await);
    let before = app.get(&ann, &path).await.assert(StatusCode::OK);
    for (field, value) in [
        ("mailbox", json!("bob@example.org")),
        ("mailbox", Value::Null),
        ("domain", json!("example.org")),
        ("signing", json!("v1a")),
        ("secret", json!("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")),
    ] {
        let change = json!({ field: value, "description": "Mine" });
        assert_eq!(app.put(&ann, &path, change).await.assert_invalid(), [field]);
    }
    let all = json!({ "mailbox": "bob@example.org", "domain": "example.org", "signing": "v1a" });
    assert_eq!(app.put(&ann, &path, all.clone()).await.assert_invalid(), ["domain", "mailbox", "signing"]);
    app.put(&bob, &path, all).await.assert_error(403, "ACCESS_DENIED");
    assert_eq!(app.get(&ann, &path).await.assert(StatusCode::OK), before);
    // A client may send back what it has read.
    let mut same = before.clone();
    same["description"] = "Mine".into();
    let updated = app.put(&ann, &path, same).await.assert(StatusCode::OK);
    assert_eq!((&updated["mailbox"], &updated["description"]), (&before["mailbox"], &"Mine".into()));
}

#[tokio::test]
async fn an_owner_manages_the_own_webhooks_and_does_not_see_answers() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let id = of_ann(&app).await;
    let path = format!("/webhooks/{id}");
    app.get(&bob, &path).await.assert_error(403, "ACCESS_DENIED");
    app.get(&bob, "/webhooks/999").await.assert_error(403, "ACCESS_DENIED");
    assert_eq!(app.get(&bob, "/webhooks").await.json()["total"], 0);
    assert_eq!(app.get(&ann, "/webhooks").await.json()["webhooks"][0]["id"], id);

    // The receiver of a user is never on this machine. Only admins learn why there is no answer.
    let tested = app.post_empty(&ann, &format!("{path}/test")).await.assert(StatusCode::OK);
    assert_eq!((&tested["delivered"], &tested["error"]), (&false.into(), &Value::Null));
    let tested = app.post_empty(&app.admin, &format!("{path}/test")).await.assert(StatusCode::OK);
    assert!(tested["error"].as_str().unwrap().contains("not public"), "{tested}");
    let listed = app.get(&ann, &format!("{path}/deliveries")).await.assert(StatusCode::OK);
    assert_eq!(listed["total"], 0);
    let replayed = app.post(&ann, &format!("{path}/replay"), json!({ "after": "0" })).await.assert(StatusCode::OK);
    assert_eq!(replayed["count"], 0);
    app.put(&ann, &path, json!({ "description": "Mine" })).await.assert(StatusCode::OK);
    app.delete(&ann, &path).await.assert(StatusCode::OK);
}

/// The position after the newest event: its number, and the whole cursor.
async fn newest(app: &App) -> (String, String) {
    app.read_events().await;
    let cursor = app.get(&app.admin, "/events").await.json()["cursor"].as_str().unwrap().to_owned();
    (cursor.split('-').next().unwrap().to_owned(), cursor)
}

#[tokio::test]
async fn a_replay_is_checked() {
    let app = App::start().await;
    let created = made(&app, json!({ "url": NOWHERE, "types": ["*"] })).await;
    let path = format!("/webhooks/{}/replay", created["id"]);
    for (body, field) in [
        (json!({}), "after"),
        (json!({ "after": "x" }), "after"),
        (json!({ "after": "0", "only": "some" }), "only"),
        (json!({ "after": "0", "only": "all", "before": "9" }), "before"),
    ] {
        assert_eq!(app.post(&app.admin, &path, body).await.assert_invalid(), [field]);
    }
    // Cursors of another log: the events after them are unknown.
    app.domain("example.org").await;
    let (number, cursor) = newest(&app).await;
    for (body, field) in [
        (json!({ "after": format!("{number}-00000000"), "only": "all" }), "after"),
        (json!({ "after": "999999" }), "after"),
        (json!({ "after": "0", "before": format!("{number}-00000000") }), "before"),
    ] {
        assert_eq!(app.post(&app.admin, &path, body).await.assert_invalid(), [field]);
    }
    for own in [number, cursor] {
        app.post(&app.admin, &path, json!({ "after": own, "only": "all" })).await.assert(StatusCode::OK);
    }
    let all = app.post(&app.admin, &path, json!({ "after": "0", "only": "all" })).await.assert(StatusCode::OK);
    assert_eq!(all["count"], Value::Null);
}
