//! `/users/{email}/preferences`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::{Value, json};

use crate::support::App;

const PATH: &str = "/users/bob@example.org/preferences";

fn saves_sent(app: &App) -> bool {
    app.mail_server.backend().provisioning.saves_sent()
}

fn of_bob(save_sent: &str) -> Value {
    json!({ "success": true, "email": "bob@example.org", "save_sent": save_sent })
}

async fn send(app: &App, token: &str, to: &str) {
    let mail = json!({ "from": "bob@example.org", "to": [to], "subject": to, "body": { "text": "Hello." } });
    app.post(token, "/mail/send", mail).await.assert(StatusCode::ACCEPTED);
}

async fn sent(app: &App, token: &str) -> Value {
    app.get(token, "/mailbox/bob@example.org/messages?folder=Sent").await.assert(StatusCode::OK)
}

#[tokio::test]
async fn only_the_owner_and_managers_of_users_have_access() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.get(&ann, PATH).await.assert_error(403, "ACCESS_DENIED");
    app.put(&ann, PATH, json!({ "save_sent": "off" })).await.assert_error(403, "ACCESS_DENIED");
    app.get(&app.admin, "/users/nobody@example.org/preferences").await.assert_error(404, "USER_NOT_FOUND");
    let of_nobody = app.put(&app.admin, "/users/nobody@example.org/preferences", json!({ "save_sent": "off" })).await;
    of_nobody.assert_error(404, "USER_NOT_FOUND");
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    for token in [&ann, &bob, &app.admin] {
        assert_eq!(app.get(token, PATH).await.assert(StatusCode::OK), of_bob("off"));
        assert_eq!(app.put(token, PATH, json!({ "save_sent": "off" })).await.assert(StatusCode::OK), of_bob("off"));
    }
}

#[tokio::test]
async fn a_value_that_is_unknown_or_has_no_effect_is_refused() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    for value in [json!("API"), json!(""), json!(null), json!(true), json!(["api"])] {
        assert_eq!(app.put(&bob, PATH, json!({ "save_sent": value })).await.assert_invalid(), ["save_sent"], "{value}");
    }
    assert_eq!(app.put(&bob, PATH, json!({})).await.assert_invalid(), ["save_sent"]);
    if !saves_sent(&app) {
        assert_eq!(app.put(&bob, PATH, json!({ "save_sent": "api" })).await.assert_invalid(), ["save_sent"]);
    }
    assert_eq!(app.get(&bob, PATH).await.assert(StatusCode::OK), of_bob("off"));
}

#[tokio::test]
async fn a_message_is_copied_to_sent_if_the_mailbox_wants_it() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    send(&app, &bob, "before@elsewhere.example").await;
    if !saves_sent(&app) {
        return;
    }
    assert_eq!(sent(&app, &bob).await["total"], 0);
    for which in ["api", "all"] {
        let changed = app.put(&bob, PATH, json!({ "save_sent": which })).await;
        assert_eq!(changed.assert(StatusCode::OK), of_bob(which));
        assert_eq!(app.get(&bob, PATH).await.assert(StatusCode::OK), of_bob(which));
        send(&app, &bob, &format!("{which}@elsewhere.example")).await;
    }
    send(&app, &bob, "ann@example.org").await;
    let copies = sent(&app, &bob).await;
    let subjects: Vec<_> = copies["messages"].as_array().unwrap().iter().map(|copy| copy["subject"].clone()).collect();
    assert_eq!(subjects, ["ann@example.org", "all@elsewhere.example", "api@elsewhere.example"]);
    assert_eq!(copies["messages"][0]["flags"], json!(["\\Seen"]));
    let to_others = app.get(&ann, "/mailbox/ann@example.org/messages").await.assert(StatusCode::OK);
    assert_eq!(to_others["total"], 1, "a copy is no second delivery");
    assert_eq!(app.get(&bob, "/mailbox/bob@example.org/messages").await.assert(StatusCode::OK)["total"], 0);

    app.put(&bob, PATH, json!({ "save_sent": "off" })).await.assert(StatusCode::OK);
    send(&app, &bob, "after@elsewhere.example").await;
    assert_eq!(sent(&app, &bob).await["total"], 3);
}
