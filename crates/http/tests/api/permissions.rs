//! Every operation of the document, asked by everybody. A new operation is in this table or the test fails.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Request;
use mailapi_http::openapi_json;
use mailapi_model::Permission;
use serde_json::Value;

use crate::support::InMemoryApp;

/// Whom an operation is for; everybody else with a token gets 403, or 404 where even the existence is nobody's
/// business.
#[derive(Clone, Copy)]
enum For {
    Everybody,
    /// Everybody with a token, each within its own.
    Tokens,
    /// Everybody, after a look at the body, which here is empty.
    Bodies,
    Admins,
    /// The mailbox, whoever holds `view_mailbox`, admins.
    Readers,
    /// Whoever holds `manage_users`, and admins.
    UserManagers,
    /// Whoever holds `manage_domains`, and admins.
    DomainManagers,
    /// The token's owner, and admins.
    TokenOwners,
    /// The sender, and admins.
    Senders,
}

const TABLE: &[(&str, For)] = &[
    ("GET /api/v1/domains", For::Tokens),
    ("POST /api/v1/domains", For::Admins),
    ("GET /api/v1/domains/{domain}", For::DomainManagers),
    ("GET /api/v1/mail/delivery-log", For::Admins),
    ("GET /api/v1/mail/delivery-log/sync", For::Admins),
    ("GET /api/v1/mail/inbox", For::Tokens),
    ("POST /api/v1/mail/send", For::Bodies),
    ("GET /api/v1/mail/sent", For::Tokens),
    ("GET /api/v1/mail/{message_id}/status", For::Senders),
    ("GET /api/v1/mailbox/{email}/folders", For::Readers),
    ("GET /api/v1/mailbox/{email}/folders/{folder}/messages", For::Readers),
    ("GET /api/v1/mailbox/{email}/folders/{folder}/messages/{uid}", For::Readers),
    ("GET /api/v1/mailbox/{email}/folders/{folder}/messages/{uid}/attachments", For::Readers),
    ("GET /api/v1/mailbox/{email}/folders/{folder}/messages/{uid}/attachments/{name}", For::Readers),
    ("GET /api/v1/mailbox/{email}/messages", For::Readers),
    ("GET /api/v1/mailbox/{email}/messages/{uid}", For::Readers),
    ("GET /api/v1/mailbox/{email}/messages/{uid}/attachment/{index}", For::Readers),
    ("GET /api/v1/mailbox/{email}/messages/{uid}/raw", For::Readers),
    ("GET /api/v1/mailbox/{email}/search", For::Readers),
    ("GET /api/v1/tokens", For::Tokens),
    ("POST /api/v1/tokens", For::Bodies),
    ("DELETE /api/v1/tokens/{id}", For::TokenOwners),
    ("GET /api/v1/tokens/me", For::Tokens),
    ("GET /api/v1/tokens/{id}", For::TokenOwners),
    ("GET /api/v1/users", For::UserManagers),
    ("POST /api/v1/users", For::Bodies),
    ("GET /api/v1/users/me", For::Tokens),
    ("GET /api/v1/users/{email}", For::UserManagers),
    ("GET /docs", For::Everybody),
    ("GET /health", For::Everybody),
    ("GET /health/live", For::Everybody),
    ("GET /openapi.json", For::Everybody),
    ("GET /redoc", For::Everybody),
];

/// Who asks. What is asked for is Ann's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    NoToken,
    UnknownToken,
    Ann,
    Stranger,
    Delegate(Permission),
    Admin,
}

impl For {
    fn expects(self, who: Who) -> &'static [u16] {
        use Permission::{ManageDomains, ManageUsers, ViewMailbox};
        const IN: &[u16] = &[200, 201, 400, 404, 415, 422];
        const OUT: &[u16] = &[403];
        match (self, who) {
            (Self::Everybody, _) => &[200],
            (_, Who::NoToken | Who::UnknownToken) => &[401],
            (_, Who::Admin) | (Self::Tokens, _) | (Self::Readers | Self::TokenOwners | Self::Senders, Who::Ann) => IN,
            (Self::Bodies, _) => &[415],
            (Self::Readers, Who::Delegate(ViewMailbox))
            | (Self::UserManagers, Who::Delegate(ManageUsers))
            | (Self::DomainManagers, Who::Delegate(ManageDomains)) => IN,
            (Self::Senders, _) => &[404],
            _ => OUT,
        }
    }
}

fn operations() -> Vec<String> {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let paths: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_value(document["paths"].clone()).unwrap();
    let methods = |(path, item): (&String, &BTreeMap<String, Value>)| {
        item.keys().map(|method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(methods).collect()
}

#[test]
fn the_table_is_whole() {
    let mut operations = operations();
    operations.sort();
    let mut table: Vec<_> = TABLE.iter().map(|(operation, _)| (*operation).to_owned()).collect();
    table.sort();
    assert_eq!(table, operations);
}

async fn ask(app: &InMemoryApp, operation: &str, ids: &BTreeMap<&str, String>, token: Option<&str>) -> u16 {
    let (method, path) = operation.split_once(' ').unwrap();
    let fill = |part: &str| match part.strip_prefix('{') {
        Some(name) => ids[name.trim_end_matches('}')].clone(),
        None => part.to_owned(),
    };
    let mut path = path.split('/').map(fill).collect::<Vec<_>>().join("/");
    if path.ends_with("/search") {
        path.push_str("?q=minutes");
    }
    let request = Request::builder().method(method).uri(path);
    let request = token.into_iter().fold(request, |request, token| request.header("X-MAILAPI-TOKEN", token));
    app.send(request.body(Body::empty()).unwrap()).await.status.as_u16()
}

#[tokio::test]
async fn everybody_gets_what_is_theirs() {
    let app = InMemoryApp::with(|_, http| http.limits.per_minute = 0).await;
    for domain in ["example.org", "other.example"] {
        app.domain(domain).await;
    }
    let ann = app.user("ann@example.org").await;
    let message = serde_json::json!({ "from": "ann@example.org", "to": ["ann@example.org"], "body": { "text": "x" } });
    let sent = app.post(&ann, "/mail/send", message).await.json();
    let ids = BTreeMap::from([
        ("domain", "example.org".to_owned()),
        ("email", "ann@example.org".to_owned()),
        ("folder", "INBOX".to_owned()),
        ("uid", "1".to_owned()),
        ("index", "0".to_owned()),
        ("name", "x.txt".to_owned()),
        ("message_id", sent["message_id"].as_str().unwrap().to_owned()),
        ("id", app.get(&ann, "/tokens/me").await.json()["id"].to_string()),
    ]);
    // The last operation asked is the revocation of the very token, so Ann comes last.
    let mut callers = vec![(Who::NoToken, None), (Who::UnknownToken, Some("mapi_unknown".to_owned()))];
    callers.push((Who::Stranger, Some(app.user("stranger@other.example").await)));
    for permission in Permission::ALL {
        let email = format!("{}@other.example", permission.as_str());
        let token = app.user(&email).await;
        app.grant(&email, permission, "example.org").await;
        callers.push((Who::Delegate(permission), Some(token)));
    }
    callers.push((Who::Ann, Some(ann)));
    callers.push((Who::Admin, Some(app.admin.clone())));
    for (who, token) in callers {
        let revocations_last = |(operation, _): &&(&str, For)| operation.starts_with("DELETE");
        let (last, first): (Vec<_>, Vec<_>) = TABLE.iter().partition(revocations_last);
        for (operation, whom) in first.into_iter().chain(last) {
            let status = ask(&app, operation, &ids, token.as_deref()).await;
            assert!(whom.expects(who).contains(&status), "{operation} by {who:?}: {status}");
        }
    }
}
