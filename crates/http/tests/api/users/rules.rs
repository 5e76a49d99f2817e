//! `/users/{email}/rules`.

use axum::http::StatusCode;
use mailapi_model::{Permission, RuleSet};
use serde_json::{Value, json};

use crate::support::App;

const PATH: &str = "/users/bob@example.org/rules";

fn applies_rules(app: &App) -> bool {
    app.mail_server.backend().provisioning.check_rules(&RuleSet::default()).is_ok()
}

fn every_kind() -> Value {
    json!([
        {
            "name": "News", "enabled": false,
            "match": { "all": [
                { "field": "from", "op": "contains", "value": "news" },
                { "field": "to", "op": "is", "value": "bob@example.org" },
                { "field": "subject", "op": "is", "value": "Ünal" },
                { "field": "header", "name": "List-Id", "op": "contains", "value": "<news" },
                { "field": "size", "op": "over", "value": "1000" }
            ] },
            "actions": [
                { "type": "folder", "folder": "Lists/News" }, { "type": "flag", "flag": "\\Seen" },
                { "type": "forward", "to": "tim@other.example" }, { "type": "stop" }
            ]
        },
        {
            "name": "Junk", "enabled": true,
            "match": { "all": [{ "field": "verdict", "op": "is", "value": "spam" }] },
            "actions": [{ "type": "folder", "folder": "Trash" }]
        },
        {
            "name": "", "enabled": true, "match": { "all": [] },
            "actions": [
                { "type": "vacation", "subject": "Away", "text": "a\nb", "days": 3, "addresses": ["rob@example.org"] },
                { "type": "reject", "text": "No" }
            ]
        }
    ])
}

#[tokio::test]
async fn only_the_owner_and_admins_have_access() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageUsers, "example.org").await;
    app.get(&ann, PATH).await.assert_error(403, "ACCESS_DENIED");
    app.put(&ann, PATH, json!({ "rules": [] })).await.assert_error(403, "ACCESS_DENIED");
    app.get(&ann, "/users/no-address/rules").await.assert_error(403, "ACCESS_DENIED");
    app.get(&app.admin, "/users/nobody@example.org/rules").await.assert_error(404, "USER_NOT_FOUND");
    let none = json!({ "success": true, "email": "bob@example.org", "rules": [] });
    assert_eq!(app.get(&bob, PATH).await.assert(StatusCode::OK), none);
    assert_eq!(app.get(&app.admin, PATH).await.assert(StatusCode::OK), none);
}

#[tokio::test]
async fn every_wrong_member_is_named() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    if !applies_rules(&app) {
        assert_eq!(app.put(&bob, PATH, json!({ "rules": every_kind() })).await.assert_invalid(), ["rules"]);
        return;
    }
    for (rules, expected) in [
        (json!(null), vec!["rules"]),
        (json!([{ "actions": 1, "enabled": "yes" }]), vec!["rules[0].enabled", "rules[0].actions"]),
        (json!([{ "actions": [] }]), vec!["rules[0].actions"]),
        (
            json!([{
                "match": { "all": [
                    { "field": "size", "op": "over", "value": "-9" }, { "field": "header", "op": "is", "value": "x" }
                ] },
                "actions": [{ "type": "forward", "to": "bob@example.org" }]
            }]),
            vec!["rules[0].match.all[0].value", "rules[0].match.all[1].name", "rules[0].actions[0].to"],
        ),
    ] {
        assert_eq!(app.put(&bob, PATH, json!({ "rules": rules })).await.assert_invalid(), expected, "{rules}");
    }
    assert_eq!(app.get(&bob, PATH).await.assert(StatusCode::OK)["rules"], json!([]));
}

#[tokio::test]
async fn signs_of_fraud_are_compared_where_they_are_looked_for() {
    let rules = json!([{
        "name": "Fraud", "enabled": true,
        "match": { "all": [{ "field": "verdict", "op": "is", "value": "suspicious" }] },
        "actions": [{ "type": "flag", "flag": "\\Flagged" }]
    }]);
    let off = App::with(|settings, _| settings.security_analysis = false).await;
    off.domain("example.org").await;
    let bob = off.user("bob@example.org").await;
    assert_eq!(off.put(&bob, PATH, json!({ "rules": rules })).await.assert_invalid(), ["rules"]);
    let (app, _, bob) = App::with_ann_and_bob().await;
    if app.mail_server.backend().provisioning.looks_accounts_up() {
        // Dovecot delivers before the analysis.
        assert_eq!(app.put(&bob, PATH, json!({ "rules": rules })).await.assert_invalid(), ["rules"]);
        return;
    }
    let shown = app.put(&bob, PATH, json!({ "rules": rules })).await.assert(StatusCode::OK);
    assert_eq!(shown["rules"], rules);
}

#[tokio::test]
async fn rules_are_shown_as_they_were_set() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    if !applies_rules(&app) {
        return;
    }
    let expected = json!({ "success": true, "email": "bob@example.org", "rules": every_kind() });
    let replaced = app.put(&bob, PATH, json!({ "rules": every_kind() })).await.assert(StatusCode::OK);
    assert_eq!(replaced, expected);
    assert_eq!(app.get(&bob, PATH).await.assert(StatusCode::OK), expected);
    let short = json!({ "rules": [{ "actions": [{ "type": "vacation", "text": "Away" }] }] });
    let shown = app.put(&bob, PATH, short).await.assert(StatusCode::OK);
    let action = json!({ "type": "vacation", "text": "Away", "days": 7, "addresses": [] });
    let expected = json!([{ "name": "", "enabled": true, "match": { "all": [] }, "actions": [action] }]);
    assert_eq!(shown["rules"], expected);
}
