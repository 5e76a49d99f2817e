//! `GET /users`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::Value;

use crate::support::App;

fn emails(body: &Value) -> Vec<&str> {
    body["users"].as_array().unwrap().iter().map(|user| user["email"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_caller_without_manage_users_is_refused() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.get(&ann, "/users").await.assert_error(403, "ACCESS_DENIED");
    app.get(&ann, "/users?domain=example.org").await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn every_parameter_that_breaks_a_rule_is_named() {
    let app = App::start().await;
    let fields = app.get(&app.admin, "/users?domain=a_b&active=maybe&limit=0&offset=x").await.assert_invalid();
    assert_eq!(fields, ["domain", "active", "limit", "offset"]);
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    app.user("eve@other.example").await;
    let list = async |query: &str| app.get(&app.admin, &format!("/users{query}")).await.assert(StatusCode::OK);
    assert_eq!(emails(&list("").await).len(), 3);
    assert_eq!(emails(&list("?domain=other.example").await), ["eve@other.example"]);
    assert_eq!(emails(&list("?q=BOB").await), ["bob@example.org"]);
    assert!(emails(&list("?active=false").await).is_empty());
    assert_eq!(list("?limit=1&offset=1").await["total"], 3);
}

#[tokio::test]
async fn a_delegate_sees_its_domains_alone() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    app.user("eve@other.example").await;
    app.grant("ann@example.org", Permission::ManageUsers, "other.example").await;
    assert_eq!(emails(&app.get(&ann, "/users").await.assert(StatusCode::OK)), ["eve@other.example"]);
    app.get(&ann, "/users?domain=example.org").await.assert_error(403, "ACCESS_DENIED");
}

/// Missing usage of one mailbox must not fail the whole list.
#[tokio::test]
async fn everybody_is_listed_whatever_the_mailbox_server_does() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.user("cid@example.org").await;
    for mailbox in ["ann@example.org", "cid@example.org"] {
        app.deliver(mailbox, "Subject: x\n\nx\n").await;
    }
    let listed = async || {
        let body = app.get(&app.admin, "/users?domain=example.org").await.assert(StatusCode::OK);
        assert_eq!(body["total"], 3);
        let mut users: Vec<_> = body["users"].as_array().unwrap().iter().map(held).collect();
        users.sort();
        users
    };
    let measured = |name: &str, messages| (format!("{name}@example.org"), messages, true);
    let unmeasured = |name: &str| (format!("{name}@example.org"), 0, false);
    assert_eq!(listed().await, [measured("ann", 1), measured("bob", 0), measured("cid", 1)]);
    app.trouble.break_mailbox("ann@example.org");
    assert_eq!(
        listed().await,
        [unmeasured("ann"), measured("bob", 0), measured("cid", 1)],
        "empty and unknown look different"
    );
    app.trouble.go_down();
    assert_eq!(listed().await, [unmeasured("ann"), unmeasured("bob"), unmeasured("cid")]);
}

/// Returns a user's address, the number of messages in the mailbox, and whether that number is known.
fn held(user: &Value) -> (String, u64, bool) {
    assert_eq!(user["message_count"] == 0, user["quota_used_bytes"] == 0, "{user}");
    let (messages, known) = (user["message_count"].as_u64().unwrap(), user["quota_known"].as_bool().unwrap());
    (user["email"].as_str().unwrap().to_owned(), messages, known)
}
