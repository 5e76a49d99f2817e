//! `PUT /domains/{domain}`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn only_domain_managers_change_it_and_others_learn_nothing() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    app.grant("bob@example.org", Permission::ManageDomains, "other.example").await;
    app.grant("bob@example.org", Permission::ManageUsers, "example.org").await;
    for token in [&ann, &bob] {
        for path in ["/domains/example.org", "/domains/nowhere.example", "/domains/a%20b"] {
            app.put(token, path, json!({ "active": 3 })).await.assert_error(403, "ACCESS_DENIED");
        }
    }
    assert_eq!(app.get(&app.admin, "/domains/example.org").await.json()["domain"]["active"], true);
    for path in ["/domains/nowhere.example", "/domains/a%20b"] {
        app.put(&app.admin, path, json!({})).await.assert_error(404, "DOMAIN_NOT_FOUND");
    }
}

#[tokio::test]
async fn members_of_a_wrong_type_are_named() {
    let (app, ..) = App::with_ann_and_bob().await;
    for body in [json!({ "active": "no", "description": 7 }), json!({ "active": 0, "description": "a\nb" })] {
        let fields = app.put(&app.admin, "/domains/example.org", body).await.assert_invalid();
        assert_eq!(fields, ["active", "description"]);
    }
}

#[tokio::test]
async fn what_is_absent_stays_and_null_clears_the_description() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageDomains, "example.org").await;
    let put = async |body| app.put(&ann, "/domains/example.org", body).await.assert(StatusCode::OK)["domain"].clone();
    assert_eq!(put(json!({ "description": " Ours " })).await["description"], "Ours");
    let off = put(json!({ "active": false })).await;
    assert_eq!((&off["active"], &off["description"]), (&json!(false), &json!("Ours")));
    let message = json!({ "from": "ann@example.org", "to": ["bob@example.org"], "body": { "text": "x" } });
    app.post(&ann, "/mail/send", message.clone()).await.assert_error(403, "DOMAIN_NOT_ALLOWED");
    // An inactive domain still receives mail.
    app.deliver("ann@example.org", "Subject: Hi\n\nHello\n").await;
    assert_eq!(app.get(&ann, "/mail/inbox").await.assert(StatusCode::OK)["total"], 1);
    let on = put(json!({ "active": true, "description": null })).await;
    assert_eq!((&on["active"], &on["description"]), (&json!(true), &json!(null)));
    app.post(&ann, "/mail/send", message).await.assert(StatusCode::ACCEPTED);
    assert_eq!(put(json!({})).await, on);
}
