//! `/aliases`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::{Value, json};

use crate::support::App;

const TEAM: &str = "/aliases/team@example.org";

fn team(members: &[&str]) -> Value {
    json!({ "address": "team@example.org", "members": members })
}

/// Returns the status of a message that a caller sends from this address.
async fn sent_from(app: &App, token: &str, from: &str) -> u16 {
    let body = json!({ "from": from, "to": ["bob@example.org"], "body": { "text": "Hello" } });
    app.post(token, "/mail/send", body).await.status.as_u16()
}

#[tokio::test]
async fn only_a_sender_of_an_alias_sends_from_it() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let members = ["ann@example.org", "bob@example.org"];
    app.post(&app.admin, "/aliases", team(&members)).await.assert(StatusCode::CREATED);
    assert_eq!(sent_from(&app, &ann, "team@example.org").await, 403, "a member only");
    let change = json!({ "senders": ["ann@example.org"] });
    app.put(&app.admin, TEAM, change.clone()).await.assert(StatusCode::OK);
    assert_eq!(sent_from(&app, &ann, "The Team <team@example.org>").await, 202);
    assert_eq!(sent_from(&app, &bob, "team@example.org").await, 403);
    assert_eq!(sent_from(&app, &ann, "team+x@example.org").await, 403);
    let sent = app.get(&ann, "/mail/sent").await.assert(StatusCode::OK);
    assert_eq!((&sent["total"], &sent["messages"][0]["from"]), (&json!(1), &json!("team@example.org")), "{sent}");

    app.put(&app.admin, TEAM, json!({ "active": false })).await.assert(StatusCode::OK);
    assert_eq!(sent_from(&app, &ann, "team@example.org").await, 403, "answers would be lost");
    app.put(&app.admin, TEAM, json!({ "active": true })).await.assert(StatusCode::OK);
    app.delete(&app.admin, "/users/ann@example.org").await.assert(StatusCode::OK);
    let again = app.user("ann@example.org").await;
    assert_eq!(sent_from(&app, &again, "team@example.org").await, 403, "another person");
}

#[tokio::test]
async fn a_mailbox_sends_with_its_own_tags() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    assert_eq!(sent_from(&app, &ann, "Ann+Shop@example.org").await, 202);
    assert_eq!(sent_from(&app, &bob, "ann+shop@example.org").await, 403);
    app.user("ann+shop@example.org").await;
    assert_eq!(sent_from(&app, &ann, "ann+shop@example.org").await, 403, "another user has the address");
    let desk = json!({ "address": "ann+desk@example.org", "members": ["bob@example.org"] });
    app.post(&app.admin, "/aliases", desk).await.assert(StatusCode::CREATED);
    assert_eq!(sent_from(&app, &ann, "ann+desk@example.org").await, 403, "an alias has the address");
}

/// Sends a message as Ann; returns its status after all deliveries.
async fn sent(app: &App, ann: &str, to: &[&str]) -> Value {
    let body = json!({ "from": "ann@example.org", "to": to, "body": { "text": "Hello" } });
    let sent = app.post(ann, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    app.sync().await;
    let path = format!("/mail/{}/status", sent["message_id"].as_str().unwrap());
    app.get(ann, &path).await.assert(StatusCode::OK)
}

async fn held(app: &App, mailbox: &str) -> Value {
    app.get(&app.admin, &format!("/mailbox/{mailbox}/messages")).await.assert(StatusCode::OK)["total"].take()
}

#[tokio::test]
async fn callers_without_the_right_change_and_see_nothing() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.post(&app.admin, "/aliases", team(&["bob@example.org"])).await.assert(StatusCode::CREATED);
    app.post(&ann, "/aliases", team(&["ann@example.org"])).await.assert_error(403, "ACCESS_DENIED");
    app.put(&ann, TEAM, json!({ "members": ["ann@example.org"] })).await.assert_error(403, "ACCESS_DENIED");
    app.delete(&ann, TEAM).await.assert_error(403, "ACCESS_DENIED");
    for path in [TEAM, "/aliases/none@example.org", "/aliases/x", "/aliases", "/aliases?domain=example.org"] {
        app.get(&ann, path).await.assert_error(403, "ACCESS_DENIED");
    }
    let kept = app.get(&app.admin, TEAM).await.assert(StatusCode::OK);
    assert_eq!(kept["alias"]["members"], json!(["bob@example.org"]));
}

#[tokio::test]
async fn every_broken_rule_is_named() {
    let (app, ..) = App::with_ann_and_bob().await;
    let refused = async |body: Value| app.post(&app.admin, "/aliases", body).await.assert_invalid();
    assert_eq!(refused(json!({ "address": "x", "members": "ann@example.org" })).await, ["address", "members"]);
    assert_eq!(refused(json!({})).await, ["address", "members"]);
    assert_eq!(refused(team(&[])).await, ["members"]);
    assert_eq!(refused(team(&["ann@example.org", "x"])).await, ["members[1]"]);
    assert_eq!(refused(team(&["ann@example.org", "Team@example.org"])).await, ["members[1]"]);
    let with_senders =
        |senders: Value| json!({ "address": "team@example.org", "members": ["ann@example.org"], "senders": senders });
    assert_eq!(refused(with_senders(json!(["ann@example.org", "none@example.org"]))).await, ["senders[1]"]);
    assert_eq!(refused(with_senders(json!("ann@example.org"))).await, ["senders"]);
    let all = json!({ "address": "*@example.org", "members": ["ann@example.org"], "senders": ["ann@example.org"] });
    assert_eq!(refused(all).await, ["senders"]);
    let many: Vec<_> = (0..1001).map(|n| format!("u{n}@example.org")).collect();
    assert_eq!(refused(team(&many.iter().map(String::as_str).collect::<Vec<_>>())).await, ["members"]);
    app.get(&app.admin, TEAM).await.assert_error(404, "ALIAS_NOT_FOUND");
    let nowhere = json!({ "address": "team@nowhere.example", "members": ["ann@example.org"] });
    app.post(&app.admin, "/aliases", nowhere).await.assert_error(404, "DOMAIN_NOT_FOUND");
}

#[tokio::test]
async fn a_loop_through_other_aliases_is_refused() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.post(&app.admin, "/aliases", team(&["all@example.org"])).await.assert(StatusCode::CREATED);
    let all = json!({ "address": "all@example.org", "members": ["ann@example.org", "team@example.org"] });
    assert_eq!(app.post(&app.admin, "/aliases", all).await.assert_invalid(), ["members"]);
    let all = json!({ "address": "all@example.org", "members": ["ann@example.org"] });
    app.post(&app.admin, "/aliases", all).await.assert(StatusCode::CREATED);
    let back = json!({ "members": ["team@example.org"] });
    assert_eq!(app.put(&app.admin, "/aliases/all@example.org", back).await.assert_invalid(), ["members"]);
}

#[tokio::test]
async fn an_address_belongs_to_one_user_or_one_alias() {
    let (app, ..) = App::with_ann_and_bob().await;
    let body = json!({ "address": "ANN@example.org", "members": ["bob@example.org"] });
    app.post(&app.admin, "/aliases", body).await.assert_error(409, "ALIAS_EXISTS");
    app.post(&app.admin, "/aliases", team(&["bob@example.org"])).await.assert(StatusCode::CREATED);
    app.post(&app.admin, "/aliases", team(&["ann@example.org"])).await.assert_error(409, "ALIAS_EXISTS");
    let user = json!({ "email": "team@example.org", "password": "correct horse" });
    app.post(&app.admin, "/users", user.clone()).await.assert_error(409, "ALIAS_EXISTS");
    app.delete(&app.admin, TEAM).await.assert(StatusCode::OK);
    app.delete(&app.admin, TEAM).await.assert_error(404, "ALIAS_NOT_FOUND");
    app.post(&app.admin, "/users", user).await.assert(StatusCode::CREATED);
}

#[tokio::test]
async fn an_alias_is_shown_as_it_was_made_and_changed() {
    let (app, ..) = App::with_ann_and_bob().await;
    let mut alias = json!({
        "address": "team@example.org", "domain": "example.org", "members": ["bob@example.org", "ann@example.org"],
        "senders": [], "active": true, "created_at": app.now().to_string(),
    });
    let members = ["Bob@Example.org", "ann@example.org", "bob@example.org"];
    let created = app.post(&app.admin, "/aliases", team(&members)).await.assert(StatusCode::CREATED);
    assert_eq!(created, json!({ "success": true, "alias": alias }));
    assert_eq!(app.get(&app.admin, TEAM).await.assert(StatusCode::OK)["alias"], alias);
    let change = json!({ "active": false });
    alias["active"] = json!(false);
    assert_eq!(app.put(&app.admin, TEAM, change).await.assert(StatusCode::OK)["alias"], alias);
    alias["members"] = json!(["ann@example.org"]);
    let change = json!({ "members": ["ann@example.org"] });
    assert_eq!(app.put(&app.admin, TEAM, change).await.assert(StatusCode::OK)["alias"], alias);
    alias["senders"] = json!(["ann@example.org", "bob@example.org"]);
    let change = json!({ "senders": ["ann@example.org", "Bob@example.org", "ANN@example.org"] });
    assert_eq!(app.put(&app.admin, TEAM, change).await.assert(StatusCode::OK)["alias"], alias);
    let listed = app.get(&app.admin, "/aliases").await.assert(StatusCode::OK);
    assert_eq!(listed, json!({ "success": true, "total": 1, "limit": 50, "offset": 0, "aliases": [alias] }));
    app.put(&app.admin, "/aliases/none@example.org", json!({})).await.assert_error(404, "ALIAS_NOT_FOUND");
}

#[tokio::test]
async fn a_delegate_manages_the_aliases_of_its_domain() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    app.grant("ann@example.org", Permission::ManageUsers, "other.example").await;
    app.post(&app.admin, "/aliases", team(&["bob@example.org"])).await.assert(StatusCode::CREATED);
    let info = json!({ "address": "info@other.example", "members": ["bob@example.org"] });
    app.post(&ann, "/aliases", info).await.assert(StatusCode::CREATED);
    app.put(&ann, "/aliases/info@other.example", json!({ "active": true })).await.assert(StatusCode::OK);
    let listed = app.get(&ann, "/aliases").await.assert(StatusCode::OK);
    assert_eq!((&listed["total"], &listed["aliases"][0]["address"]), (&json!(1), &json!("info@other.example")));
    assert_eq!(app.get(&app.admin, "/aliases?q=TEAM").await.assert(StatusCode::OK)["total"], 1);
    assert_eq!(app.get(&app.admin, "/aliases?q=bob").await.assert(StatusCode::OK)["total"], 2);
    let fields = app.get(&app.admin, "/aliases?domain=a_b&limit=0").await.assert_invalid();
    assert_eq!(fields, ["domain", "limit"]);
    app.delete(&ann, "/aliases/info@other.example").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn an_admins_address_is_no_alias_of_a_delegate() {
    let app = App::with(|settings, _| settings.admins = ["root@example.org".parse().unwrap()].into()).await;
    app.domain("example.org").await;
    let ann = app.user("ann@example.org").await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    let root = json!({ "address": "root@example.org", "members": ["ann@example.org"] });
    app.post(&ann, "/aliases", root.clone()).await.assert_error(403, "ACCESS_DENIED");
    app.post(&app.admin, "/aliases", root).await.assert(StatusCode::CREATED);
    app.get(&ann, "/aliases/root@example.org").await.assert_error(403, "ACCESS_DENIED");
    assert_eq!(app.get(&ann, "/aliases").await.assert(StatusCode::OK)["total"], 0);
    // The alias or user of a tagged address would get mail that the admin gets now.
    let tagged = json!({ "address": "Root+alerts+x@example.org", "members": ["ann@example.org"] });
    app.post(&ann, "/aliases", tagged.clone()).await.assert_error(403, "ACCESS_DENIED");
    let user = json!({ "email": "root+alerts@example.org", "password": "correct horse" });
    app.post(&ann, "/users", user).await.assert_error(403, "ACCESS_DENIED");
    app.post(&app.admin, "/aliases", tagged).await.assert(StatusCode::CREATED);
    app.delete(&ann, "/aliases/root+alerts+x@example.org").await.assert_error(403, "ACCESS_DENIED");
}

#[tokio::test]
async fn a_domain_is_deleted_with_its_aliases() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    let info = json!({ "address": "info@other.example", "members": ["bob@example.org"] });
    app.post(&app.admin, "/aliases", info).await.assert(StatusCode::CREATED);
    app.delete(&app.admin, "/domains/other.example").await.assert(StatusCode::OK);
    app.get(&app.admin, "/aliases/info@other.example").await.assert_error(404, "ALIAS_NOT_FOUND");
}

#[tokio::test]
async fn a_message_that_each_member_has_is_sent() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.user("cid@example.org").await;
    let members = ["bob@example.org", "cid@example.org"];
    app.post(&app.admin, "/aliases", team(&members)).await.assert(StatusCode::CREATED);
    let status = sent(&app, &ann, &["team@example.org"]).await;
    assert_eq!(status["status"], "sent", "{status}");
    let recipient = &status["recipients"][0];
    assert_eq!((&recipient["email"], &recipient["status"]), (&json!("team@example.org"), &json!("sent")));
    assert_eq!(recipient["partly_bounced_at"], Value::Null, "{recipient}");
    assert_eq!((held(&app, "bob@example.org").await, held(&app, "cid@example.org").await), (json!(1), json!(1)));

    app.put(&app.admin, TEAM, json!({ "active": false })).await.assert(StatusCode::OK);
    assert_eq!(sent(&app, &ann, &["team@example.org"]).await["status"], "bounced");
}

#[tokio::test]
async fn a_member_without_a_mailbox_is_reported_and_harms_no_other() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let members = ["left@example.org", "bob@example.org"];
    app.post(&app.admin, "/aliases", team(&members)).await.assert(StatusCode::CREATED);
    let status = sent(&app, &ann, &["team@example.org"]).await;
    let recipient = &status["recipients"][0];
    assert_eq!((&status["status"], &recipient["status"]), (&json!("sent"), &json!("sent")), "{status}");
    let response = recipient["partly_bounced_response"].as_str().unwrap_or_default();
    assert!(response.contains("5.1.1"), "{recipient}");
    assert_eq!(held(&app, "bob@example.org").await, 1);
    let log = app.get(&app.admin, "/mail/delivery-log?status=bounced").await.assert(StatusCode::OK);
    assert_eq!(log["entries"][0]["final_recipient"], "left@example.org", "{log}");
}

#[tokio::test]
async fn a_catch_all_gets_mail_for_addresses_that_nothing_else_has() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.user("cid@example.org").await;
    let all = json!({ "address": "*@example.org", "members": ["bob@example.org"] });
    app.post(&app.admin, "/aliases", all).await.assert(StatusCode::CREATED);
    app.post(&app.admin, "/aliases", team(&["cid@example.org"])).await.assert(StatusCode::CREATED);
    let status = sent(&app, &ann, &["any@example.org", "cid+tag@example.org", "team@example.org"]).await;
    assert_eq!(status["status"], "sent", "{status}");
    assert_eq!(held(&app, "bob@example.org").await, 1, "a mailbox and an alias keep their mail");
    let shown = app.get(&app.admin, "/aliases/%2A@example.org").await.assert(StatusCode::OK);
    assert_eq!(shown["alias"]["address"], "*@example.org");
    app.delete(&app.admin, "/aliases/*@example.org").await.assert(StatusCode::OK);
    assert_eq!(sent(&app, &ann, &["any@example.org"]).await["status"], "bounced");
}
