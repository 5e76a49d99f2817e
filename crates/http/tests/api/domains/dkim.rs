//! `GET` and `POST /domains/{domain}/dkim`.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use mailapi_model::Permission;
use serde_json::json;

use crate::support::{App, PASSWORD, api};

const PATH: &str = "/domains/example.org/dkim";

#[tokio::test]
async fn domain_managers_see_the_key_and_only_admins_create_one() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageDomains, "example.org").await;
    app.get(&bob, PATH).await.assert_error(403, "ACCESS_DENIED");
    app.get(&ann, PATH).await.assert(StatusCode::OK);
    app.post_empty(&ann, PATH).await.assert_error(403, "ACCESS_DENIED");
    app.post_text(&ann, PATH, "no JSON").await.assert_error(403, "ACCESS_DENIED");
    for path in ["/domains/nowhere.example/dkim", "/domains/a%20b/dkim"] {
        app.get(&app.admin, path).await.assert_error(404, "DOMAIN_NOT_FOUND");
        app.post_empty(&app.admin, path).await.assert_error(404, "DOMAIN_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_domain_that_waits_gets_its_key_by_approval_alone() {
    let app = App::start().await;
    let request = json!({ "domain": "new.example", "email": "ann@new.example", "password": PASSWORD, "name": "Ann" });
    let ann = app.post("", "/auth/signup", request).await.assert(StatusCode::CREATED)["token"].clone();
    app.post_empty(&app.admin, "/domains/new.example/dkim").await.assert_error(404, "NOT_FOUND");
    let ann = ann.as_str().unwrap();
    app.get(ann, "/domains/new.example/dkim").await.assert_error(404, "NOT_FOUND");
    app.put(ann, "/domains/new.example", json!({ "active": true })).await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn what_is_no_algorithm_is_refused() {
    let (app, ..) = App::with_ann_and_bob().await;
    for algorithm in [json!("rsa"), json!("RSA-SHA256"), json!(1), json!(["rsa-sha256"])] {
        let body = json!({ "algorithm": algorithm });
        assert_eq!(app.post(&app.admin, PATH, body).await.assert_invalid(), ["algorithm"]);
    }
    let text = api(Method::POST, PATH).header("X-MAILAPI-TOKEN", &app.admin).body(Body::from("{}")).unwrap();
    app.send(text).await.assert_error(415, "UNSUPPORTED_MEDIA_TYPE");
    assert_eq!(app.get(&app.admin, PATH).await.json()["selector"], "m2026112001");
}

#[tokio::test]
async fn a_new_key_has_a_new_selector_and_shows_its_public_side_alone() {
    let (app, ..) = App::with_ann_and_bob().await;
    let old = app.get(&app.admin, PATH).await.assert(StatusCode::OK);
    assert_eq!((&old["algorithm"], &old["selector"]), (&json!("rsa-sha256"), &json!("m2026112001")));
    let new = app.post(&app.admin, PATH, json!({ "algorithm": "ed25519-sha256" })).await.assert(StatusCode::CREATED);
    let key = new["public_key"].as_str().unwrap();
    assert_eq!(key.len(), 44, "the 32 bytes of RFC 8463 in base64");
    let expected = json!({
        "success": true, "domain": "example.org", "selector": "m2026112002", "algorithm": "ed25519-sha256",
        "dns_name": "m2026112002._domainkey.example.org", "dns_type": "TXT",
        "dns_value": format!("v=DKIM1; k=ed25519; p={key}"), "public_key": key,
        "created_at": "2026-11-20T10:15:30.000Z",
        "keys": [
            {
                "selector": "m2026112002", "algorithm": "ed25519-sha256", "state": "pending",
                "dns_name": "m2026112002._domainkey.example.org",
                "dns_value": format!("v=DKIM1; k=ed25519; p={key}"), "created_at": "2026-11-20T10:15:30.000Z",
                "published_at": null, "active_at": null, "retiring_at": null, "retired_at": null,
            },
            {
                "selector": "m2026112001", "algorithm": "rsa-sha256", "state": "active",
                "dns_name": "m2026112001._domainkey.example.org", "dns_value": old["dns_value"],
                "created_at": "2026-11-20T10:15:30.000Z", "published_at": null,
                "active_at": "2026-11-20T10:15:30.000Z", "retiring_at": null, "retired_at": null,
            },
        ],
    });
    assert_eq!(new, expected);
    assert_eq!(app.get(&app.admin, PATH).await.assert(StatusCode::OK), expected);
    let domain = app.get(&app.admin, "/domains/example.org").await.assert(StatusCode::OK);
    assert_eq!(domain["domain"]["dkim_selector"], "m2026112001", "the old one signs until the new one is found");
}

#[tokio::test]
async fn an_empty_body_means_the_usual_algorithm() {
    let (app, ..) = App::with_ann_and_bob().await;
    for answer in [app.post_empty(&app.admin, PATH).await, app.post(&app.admin, PATH, json!({})).await] {
        assert_eq!(answer.assert(StatusCode::CREATED)["algorithm"], "rsa-sha256");
    }
}

#[tokio::test]
async fn a_days_selectors_come_to_an_end() {
    let (app, ..) = App::with_ann_and_bob().await;
    let body = json!({ "algorithm": "ed25519-sha256" });
    for _ in 2..=95 {
        app.post(&app.admin, PATH, body.clone()).await.assert(StatusCode::CREATED);
    }
    app.clock.advance(std::time::Duration::from_secs(60));
    for _ in 96..=99 {
        app.post(&app.admin, PATH, body.clone()).await.assert(StatusCode::CREATED);
    }
    let refused = app.post(&app.admin, PATH, body.clone()).await;
    refused.assert_error(429, "RATE_LIMIT_EXCEEDED");
    assert_eq!(refused.header("retry-after"), "49410", "until midnight in UTC");
    app.clock.advance(std::time::Duration::from_secs(49_410));
    assert_eq!(app.post(&app.admin, PATH, body).await.assert(StatusCode::CREATED)["selector"], "m2026112101");
}
