//! Access of every kind of caller to every operation of the document. A new operation must be added to the table.
//!
//! The requested objects belong to Ann, to a user of her domain, or to her domain `example.org`. Each delegate
//! holds one permission: in `example.org`, where it grants access, or in `other.example`, where it must not.

use std::collections::BTreeSet;

use axum::body::Body;
use mailapi_http::openapi_json;
use mailapi_model::Permission::{self, ManageDomains, ManageUsers, SendMail, ViewMailbox, ViewStats};
use serde_json::Value;

use crate::support::{Answer, App, PASSWORD};

/// Kind of caller.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    NoToken,
    UnknownToken,
    Ann,
    Stranger,
    /// Holds the permission in Ann's domain.
    Delegate(Permission),
    /// Holds the permission in another domain.
    Misplaced(Permission),
    Admin,
}

/// Callers that an operation accepts.
#[derive(Clone, Copy)]
enum For {
    /// All callers, with or without a token.
    Everybody,
    /// All callers with a token, each for its own objects.
    Tokens,
    Admins,
    /// Ann and admins.
    Owner,
    /// Ann, holders of the permission in her domain, and admins.
    OwnerAnd(Permission),
    /// Ann, holders of one of the permissions in her domain, and admins.
    OwnerAndOne(&'static [Permission]),
    /// Holders of the permission in Ann's domain, and admins; not Ann herself.
    Holders(Permission),
    /// Holders of the permission in any domain, and admins; the response covers their own domains.
    HoldersAnywhere(Permission),
}

impl For {
    fn includes(self, who: Who) -> bool {
        match (self, who) {
            (Self::Everybody, _) => true,
            (_, Who::NoToken | Who::UnknownToken) => false,
            (Self::Tokens, _) | (_, Who::Admin) => true,
            (Self::Owner | Self::OwnerAnd(_) | Self::OwnerAndOne(_), Who::Ann) => true,
            (Self::OwnerAndOne(wanted), Who::Delegate(held)) => wanted.contains(&held),
            (Self::OwnerAnd(wanted) | Self::Holders(wanted), Who::Delegate(held)) => wanted == held,
            (Self::HoldersAnywhere(wanted), Who::Delegate(held) | Who::Misplaced(held)) => wanted == held,
            _ => false,
        }
    }
}

/// One request for an operation.
struct Row {
    operation: &'static str,
    callers: For,
    /// Appended to the path.
    query: &'static str,
    body: &'static str,
    /// Status and error code for accepted callers.
    granted: (u16, &'static str),
    /// Status and error code for all other callers with a token.
    refused: (u16, &'static str),
    /// Status and error code for an admin's API token, if it differs because that token has no mailbox.
    admin: Option<(u16, &'static str)>,
}

const fn row(operation: &'static str, callers: For, status: u16) -> Row {
    let (granted, refused) = ((status, ""), (403, "ACCESS_DENIED"));
    Row { operation, callers, query: "", body: "", granted, refused, admin: None }
}

impl Row {
    const fn body(self, body: &'static str) -> Self {
        Self { body, ..self }
    }

    const fn query(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    const fn granted(self, code: &'static str) -> Self {
        Self { granted: (self.granted.0, code), ..self }
    }

    const fn refused(self, status: u16, code: &'static str) -> Self {
        Self { refused: (status, code), ..self }
    }

    const fn admin(self, status: u16, code: &'static str) -> Self {
        Self { admin: Some((status, code)), ..self }
    }

    fn expected(&self, who: Who) -> (u16, &'static str) {
        match who {
            Who::Admin if self.admin.is_some() => self.admin.unwrap_or_default(),
            who if self.callers.includes(who) => self.granted,
            Who::NoToken => (401, "NO_API_TOKEN"),
            Who::UnknownToken => (401, "INVALID_TOKEN"),
            _ => self.refused,
        }
    }
}

const MESSAGES: &str = "GET /api/v1/mailbox/{email}/folders/{folder}/messages";

/// A webhook for Ann's events, whose receiver is on this machine, where nothing listens. Only admins may name such a
/// receiver; Ann may register a public one.
const WEBHOOK: &str = r#"{"url":"http://127.0.0.1:1/","types":["*"],"mailbox":"ann@example.org"}"#;

/// `{n}` in a path, a query or a body is replaced by a number that is unique to the request.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("POST /api/v1/mail/send", For::OwnerAnd(SendMail), 202).refused(403, "SENDER_NOT_AUTHORIZED")
        .body(r#"{"from":"ann@example.org","to":["ann@example.org"],"body":{"text":"x"}}"#),
    row("GET /api/v1/mail/sent", For::Tokens, 200),
    row("GET /api/v1/mail/inbox", For::Tokens, 200).admin(422, "VALIDATION_ERROR"),
    row("GET /api/v1/mail/inbox", For::OwnerAnd(ViewMailbox), 200).query("?mailbox=ann@example.org"),
    row("GET /api/v1/mail/delivery-log", For::Admins, 200),
    row("GET /api/v1/mail/delivery-log/sync", For::Admins, 200),
    row("GET /api/v1/mail/{message_id}/status", For::Owner, 200).refused(404, "MESSAGE_NOT_FOUND"),
    row("GET /api/v1/mail/{message_id}/timeline", For::OwnerAnd(ViewStats), 200).refused(404, "MESSAGE_NOT_FOUND"),

    row("GET /api/v1/events", For::Tokens, 200),
    row("GET /api/v1/events", For::OwnerAndOne(&[ViewStats, ViewMailbox]), 200).query("?domain=example.org"),
    row("GET /api/v1/events", For::OwnerAndOne(&[ViewStats, ViewMailbox]), 200).query("?mailbox=ann@example.org"),
    row("GET /api/v1/events/stream", For::Tokens, 200),
    row("GET /api/v1/events/stream", For::OwnerAndOne(&[ViewStats, ViewMailbox]), 200).query("?domain=example.org"),
    // Ann's message was accepted.
    row("GET /api/v1/events/{id}", For::OwnerAnd(ViewStats), 200).refused(404, "EVENT_NOT_FOUND"),

    row("GET /api/v1/queue", For::Admins, 200),
    row("GET /api/v1/queue/{queue_id}", For::Admins, 404).granted("QUEUE_MESSAGE_NOT_FOUND"),
    row("POST /api/v1/queue/{queue_id}/retry", For::Admins, 404).granted("QUEUE_MESSAGE_NOT_FOUND"),
    row("POST /api/v1/queue/{queue_id}/hold", For::Admins, 404).granted("QUEUE_MESSAGE_NOT_FOUND"),
    row("POST /api/v1/queue/{queue_id}/release", For::Admins, 404).granted("QUEUE_MESSAGE_NOT_FOUND"),
    row("POST /api/v1/queue/{queue_id}/cancel", For::Admins, 404).granted("QUEUE_MESSAGE_NOT_FOUND"),

    row("GET /api/v1/mailbox/{email}/folders", For::OwnerAnd(ViewMailbox), 200),
    row("GET /api/v1/mailbox/{email}/messages", For::OwnerAnd(ViewMailbox), 200),
    row("GET /api/v1/mailbox/{email}/messages/{uid}", For::OwnerAnd(ViewMailbox), 200),
    row("GET /api/v1/mailbox/{email}/messages/{uid}/attachment/{index}", For::OwnerAnd(ViewMailbox), 200),
    row("GET /api/v1/mailbox/{email}/messages/{uid}/raw", For::OwnerAnd(ViewMailbox), 200),
    row("GET /api/v1/mailbox/{email}/messages/{uid}/security", For::OwnerAnd(ViewMailbox), 200),
    row("POST /api/v1/security/analyze", For::Tokens, 200).body("Subject: Hi\n\nHello.\n"),
    row("GET /api/v1/mailbox/{email}/search", For::OwnerAnd(ViewMailbox), 200).query("?q=minutes"),
    row(MESSAGES, For::OwnerAnd(ViewMailbox), 200),
    row("GET /api/v1/mailbox/{email}/folders/{folder}/messages/{uid}", For::OwnerAnd(ViewMailbox), 200),
    row("GET /api/v1/mailbox/{email}/folders/{folder}/messages/{uid}/attachments", For::OwnerAnd(ViewMailbox), 200),
    row("GET /api/v1/mailbox/{email}/folders/{folder}/messages/{uid}/attachments/{name}", For::OwnerAnd(ViewMailbox), 200),

    // This row runs before the next one saves a draft.
    row("DELETE /api/v1/mailbox/{email}/drafts/{uid}", For::Owner, 404).granted("MESSAGE_NOT_FOUND"),
    row("POST /api/v1/mailbox/{email}/drafts", For::Owner, 201).body("{}"),

    row("GET /api/v1/stats/delivery", For::Tokens, 200),
    row("GET /api/v1/stats/delivery", For::OwnerAnd(ViewStats), 200).query("?sender=ann@example.org"),
    row("GET /api/v1/stats/domains", For::Tokens, 200),
    row("GET /api/v1/stats/domain/{domain}", For::Holders(ViewStats), 200),
    row("GET /api/v1/stats/users/{email}", For::OwnerAnd(ViewStats), 200),

    row("GET /api/v1/tokens", For::Tokens, 200),
    row("GET /api/v1/tokens/me", For::Tokens, 200),
    row("POST /api/v1/tokens", For::Owner, 201).body(r#"{"name":"x","email":"ann@example.org"}"#),
    row("POST /api/v1/tokens", For::Admins, 201).body(r#"{"name":"x","token_type":"admin"}"#),
    row("GET /api/v1/tokens/{id}", For::Owner, 200),
    row("PUT /api/v1/tokens/{id}", For::Admins, 200).body(r#"{"name":"y"}"#),
    row("DELETE /api/v1/tokens/{id}", For::Owner, 200),

    row("POST /api/v1/auth/signup", For::Everybody, 201)
        .body(r#"{"domain":"new{n}.example","email":"x@new{n}.example","password":"correct horse","name":"X"}"#),
    row("POST /api/v1/auth/login", For::Everybody, 200).body(r#"{"email":"ann@example.org","password":"correct horse"}"#),
    row("POST /api/v1/auth/logout", For::Tokens, 422).granted("VALIDATION_ERROR"),
    row("POST /api/v1/auth/password", For::Tokens, 200).admin(422, "VALIDATION_ERROR")
        .body(r#"{"current_password":"correct horse","new_password":"correct horse"}"#),
    row("POST /api/v1/auth/refresh", For::Tokens, 422).granted("VALIDATION_ERROR"),
    row("GET /api/v1/auth/me", For::Tokens, 200),
    row("GET /api/v1/auth/lockouts", For::Admins, 200),
    row("POST /api/v1/auth/lockouts/unlock", For::Admins, 200).body(r#"{"mailbox":"x@example.org"}"#),

    row("GET /api/v1/permissions", For::Admins, 200),
    row("POST /api/v1/permissions", For::Admins, 201)
        .body(r#"{"email":"ann@example.org","permission":"view_stats","domain":"other.example"}"#),
    row("POST /api/v1/permissions/bulk", For::Admins, 201)
        .body(r#"{"email":"ann@example.org","permissions":["send_mail"],"domain":"other.example"}"#),
    row("GET /api/v1/permissions/mine", For::Tokens, 200),
    row("DELETE /api/v1/permissions/{id}", For::Admins, 200),

    row("GET /api/v1/domains", For::Tokens, 200),
    row("POST /api/v1/domains", For::Admins, 201).body(r#"{"domain":"made{n}.example"}"#),
    row("GET /api/v1/domains/pending", For::Admins, 200),
    row("GET /api/v1/domains/{domain}", For::Holders(ManageDomains), 200),
    row("PUT /api/v1/domains/{domain}", For::Holders(ManageDomains), 200).body(r#"{"description":"x"}"#),
    row("GET /api/v1/domains/{domain}/verify", For::Holders(ManageDomains), 200),
    row("GET /api/v1/domains/{domain}/dns", For::Holders(ManageDomains), 200),
    row("GET /api/v1/domains/{domain}/security", For::Holders(ManageDomains), 200),
    row("GET /api/v1/domains/{domain}/dkim", For::Holders(ManageDomains), 200),
    row("POST /api/v1/domains/{domain}/dkim", For::Admins, 201).body(r#"{"algorithm":"ed25519-sha256"}"#),
    row("POST /api/v1/domains/{domain}/approve", For::Admins, 200),

    row("GET /api/v1/users", For::HoldersAnywhere(ManageUsers), 200),
    row("GET /api/v1/users", For::Holders(ManageUsers), 200).query("?domain=example.org"),
    row("GET /api/v1/users/me", For::Tokens, 200).admin(404, "USER_NOT_FOUND"),
    row("POST /api/v1/users", For::Holders(ManageUsers), 201)
        .body(r#"{"email":"made{n}@example.org","password":"correct horse"}"#),
    row("GET /api/v1/users/{user}", For::Holders(ManageUsers), 200),
    row("PUT /api/v1/users/{user}", For::Holders(ManageUsers), 200).body(r#"{"name":"x"}"#),
    row("POST /api/v1/users/{user}/disable", For::Holders(ManageUsers), 200),
    row("POST /api/v1/users/{user}/enable", For::Holders(ManageUsers), 200),
    row("POST /api/v1/users/{user}/reset-password", For::Holders(ManageUsers), 200),
    row("DELETE /api/v1/users/{user}/purge", For::Holders(ManageUsers), 200),
    row("DELETE /api/v1/users/{user}", For::Holders(ManageUsers), 200),
    row("GET /api/v1/aliases", For::HoldersAnywhere(ManageUsers), 200),
    row("GET /api/v1/aliases", For::Holders(ManageUsers), 200).query("?domain=example.org"),
    row("POST /api/v1/aliases", For::Holders(ManageUsers), 201)
        .body(r#"{"address":"made{n}@example.org","members":["ann@example.org"]}"#),
    row("GET /api/v1/aliases/{address}", For::Holders(ManageUsers), 200),
    row("PUT /api/v1/aliases/{address}", For::Holders(ManageUsers), 200).body(r#"{"active":true}"#),
    row("DELETE /api/v1/aliases/{address}", For::Holders(ManageUsers), 200),
    row("GET /api/v1/users/{email}/app-passwords", For::OwnerAnd(ManageUsers), 200),
    row("POST /api/v1/users/{user}/app-passwords", For::OwnerAnd(ManageUsers), 201).body(r#"{"name":"x"}"#),
    row("DELETE /api/v1/users/{email}/app-passwords/{id}", For::OwnerAnd(ManageUsers), 200),
    row("GET /api/v1/users/{email}/sessions", For::OwnerAnd(ManageUsers), 200),
    row("DELETE /api/v1/users/{email}/sessions/{id}", For::OwnerAnd(ManageUsers), 200),
    row("GET /api/v1/users/{email}/preferences", For::OwnerAnd(ManageUsers), 200),
    row("PUT /api/v1/users/{email}/preferences", For::OwnerAnd(ManageUsers), 200).body(r#"{"save_sent":"off"}"#),
    row("GET /api/v1/users/{email}/rules", For::Owner, 200),
    row("PUT /api/v1/users/{email}/rules", For::Owner, 200).body(r#"{"rules":[]}"#),
    row("GET /api/v1/webhooks", For::Tokens, 200),
    row("POST /api/v1/webhooks", For::Owner, 422).granted("VALIDATION_ERROR").admin(201, "").body(WEBHOOK),
    row("POST /api/v1/webhooks", For::Admins, 201)
        .body(r#"{"url":"http://127.0.0.1:1/","types":["*"],"domain":"example.org"}"#),
    row("GET /api/v1/webhooks/{id}", For::Admins, 200),
    row("PUT /api/v1/webhooks/{id}", For::Admins, 200).body(r#"{"description":"x"}"#),
    row("POST /api/v1/webhooks/{id}/test", For::Admins, 200),
    row("POST /api/v1/webhooks/{id}/enable", For::Admins, 200),
    row("POST /api/v1/webhooks/{id}/rotate", For::Admins, 200),
    row("GET /api/v1/webhooks/{id}/deliveries", For::Admins, 200),
    row("POST /api/v1/webhooks/{id}/replay", For::Admins, 200).body(r#"{"after":"0"}"#),
    row("DELETE /api/v1/webhooks/{id}", For::Admins, 200),
    row("GET /api/v1/dns/providers", For::Admins, 200),
    row("PUT /api/v1/domains/{domain}/dns/provider", For::Admins, 409)
        .granted("DNS_ZONE_NOT_FOUND")
        .body(r#"{"server":"192.0.2.1","key_name":"k","secret":"c2VjcmV0"}"#),
    row("GET /api/v1/domains/{domain}/dns/provider", For::Admins, 404).granted("DNS_PROVIDER_NOT_FOUND"),
    row("DELETE /api/v1/domains/{domain}/dns/provider", For::Admins, 404).granted("DNS_PROVIDER_NOT_FOUND"),
    row("GET /api/v1/domains/{domain}/dns/plan", For::Admins, 404).granted("DNS_PROVIDER_NOT_FOUND"),
    row("POST /api/v1/domains/{domain}/dns/apply", For::Admins, 404)
        .granted("DNS_PROVIDER_NOT_FOUND")
        .body(r#"{"plan_id":"x"}"#),
    row("POST /api/v1/domains/{domain}/dns/rollback", For::Admins, 404)
        .granted("DNS_PROVIDER_NOT_FOUND")
        .body(r#"{"plan_id":"x"}"#),
    row("GET /api/v1/domains/{domain}/dns/history", For::Admins, 200),
    // Last, because it removes the domain with all its users.
    row("DELETE /api/v1/domains/{domain}", For::Admins, 200).query("?force=true"),

    row("GET /docs", For::Everybody, 200),
    row("GET /health", For::Everybody, 200),
    row("GET /health/live", For::Everybody, 200),
    row("GET /health/ready", For::Everybody, 200),
    row("GET /openapi.json", For::Everybody, 200),
    row("GET /redoc", For::Everybody, 200),
];

#[test]
fn the_table_is_whole() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let methods = |(path, item): (&String, &Value)| {
        item.as_object().unwrap().keys().map(|method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
    };
    let operations: BTreeSet<_> = document["paths"].as_object().unwrap().iter().flat_map(methods).collect();
    let table: BTreeSet<_> = TABLE.iter().map(|row| row.operation.replace("{user}", "{email}")).collect();
    assert_eq!(table, operations);
}

/// Registers a webhook of an admin.
async fn webhook(app: &App) -> String {
    app.post_text(&app.admin, "/webhooks", WEBHOOK).await.json()["id"].to_string()
}

/// The service, with a token for every kind of caller.
struct TestSetup {
    app: App,
    callers: Vec<(Who, String)>,
    ann: String,
    message_id: String,
    event_id: String,
    webhook: String,
    requests: std::cell::Cell<u32>,
}

const WITH_ATTACHMENT: &str = "From: bob@example.org\nSubject: The minutes\nMIME-Version: 1.0\n\
    Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nSee attached.\n\
    --b\nContent-Type: text/plain\nContent-Disposition: attachment; filename=x.txt\n\nHello\n--b--\n";

impl TestSetup {
    async fn new() -> Self {
        let app = App::with(|settings, http| {
            (http.limits.per_minute, http.limits.per_hour) = (0, 0);
            settings.signups_per_hour = 100;
            // Each request has its own client address: few domains of one client may wait for approval.
            http.trusted_proxies = vec![std::net::Ipv4Addr::UNSPECIFIED.to_string().parse().unwrap()];
        })
        .await;
        for domain in ["example.org", "other.example", "third.example"] {
            app.domain(domain).await;
        }
        let ann = app.user("ann@example.org").await;
        let mut callers = vec![
            (Who::NoToken, String::new()),
            (Who::UnknownToken, "mapi_unknown".to_owned()),
            (Who::Ann, ann.clone()),
            (Who::Stranger, app.user("stranger@other.example").await),
        ];
        for permission in Permission::ALL {
            for (who, domain) in
                [(Who::Delegate(permission), "example.org"), (Who::Misplaced(permission), "other.example")]
            {
                let email = format!("{permission}.{domain}@third.example");
                callers.push((who, app.user(&email).await));
                app.grant(&email, permission, domain).await;
            }
        }
        callers.push((Who::Admin, app.admin.clone()));
        app.deliver("ann@example.org", WITH_ATTACHMENT).await;
        let message =
            serde_json::json!({ "from": "ann@example.org", "to": ["eve@elsewhere.example"], "body": { "text": "x" } });
        let sent = app.post(&ann, "/mail/send", message).await.json();
        let message_id = sent["message_id"].as_str().unwrap().to_owned();
        app.read_events().await;
        let events = app.get(&ann, &format!("/events?after=start&message_id={message_id}")).await.json();
        let event_id = events["events"][0]["id"].as_str().unwrap().to_owned();
        let webhook = webhook(&app).await;
        Self { app, callers, ann, message_id, event_id, webhook, requests: std::cell::Cell::new(0) }
    }

    /// Returns the value of a path parameter; creates a new object if the request may consume it.
    async fn fill(&self, operation: &str, parameter: &str, who: Who, n: u32) -> String {
        match parameter {
            "{domain}" => "example.org".to_owned(),
            "{email}" => "ann@example.org".to_owned(),
            "{user}" if who == Who::Ann => "ann@example.org".to_owned(),
            "{user}" => {
                let email = format!("target{n}@example.org");
                self.app.user(&email).await;
                email
            }
            "{address}" => {
                let address = format!("alias{n}@example.org");
                let body = serde_json::json!({ "address": address, "members": ["ann@example.org"] });
                self.app.post(&self.app.admin, "/aliases", body).await.assert(axum::http::StatusCode::CREATED);
                address
            }
            "{folder}" => "INBOX".to_owned(),
            "{uid}" => "1".to_owned(),
            "{index}" => "0".to_owned(),
            "{name}" => "x.txt".to_owned(),
            "{message_id}" => self.message_id.clone(),
            // No message has it, so that a mail server's attempts do not change the answer.
            "{queue_id}" => "4jXsKf6thLz1SRkq".to_owned(),
            "{id}" if operation.contains("events") => self.event_id.clone(),
            "{id}" if operation.contains("app-passwords") => {
                let path = "/users/ann@example.org/app-passwords";
                let added = self.app.post(&self.ann, path, serde_json::json!({ "name": "x" })).await.json();
                added["app_password"]["id"].to_string()
            }
            "{id}" if operation.contains("sessions") => {
                self.app.log_in("ann@example.org").await;
                let open = self.app.get(&self.app.admin, "/users/ann@example.org/sessions").await.json();
                open["sessions"][0]["id"].to_string()
            }
            "{id}" if operation.contains("permissions") => {
                let email = format!("target{n}@example.org");
                self.app.user(&email).await;
                self.app.grant(&email, ViewStats, "example.org").await;
                let held = self.app.get(&self.app.admin, &format!("/permissions?email={email}")).await.json();
                held["permissions"][0]["id"].to_string()
            }
            "{id}" if operation.starts_with("DELETE") && operation.contains("webhooks") && who == Who::Admin => {
                webhook(&self.app).await
            }
            "{id}" if operation.contains("webhooks") => self.webhook.clone(),
            "{id}" => {
                let body = serde_json::json!({ "name": "x" });
                self.app.post(&self.ann, "/tokens", body).await.json()["id"].to_string()
            }
            other => other.to_owned(),
        }
    }

    async fn ask(&self, row: &Row, who: Who, token: &str) -> Answer {
        let n = self.requests.replace(self.requests.get() + 1);
        let (method, path) = row.operation.split_once(' ').unwrap();
        let mut filled = Vec::new();
        for part in path.split('/') {
            filled.push(self.fill(row.operation, part, who, n).await);
        }
        let numbered = |text: &str| text.replace("{n}", &n.to_string());
        let uri = filled.join("/") + &numbered(row.query);
        let client = std::net::Ipv4Addr::from_bits(std::net::Ipv4Addr::new(198, 18, 0, 0).to_bits() + n);
        let request = axum::http::Request::builder().method(method).uri(uri);
        let request = request.header("X-Forwarded-For", client.to_string());
        let request = if token.is_empty() { request } else { request.header("X-MAILAPI-TOKEN", token) };
        if row.body.is_empty() {
            return self.app.send(request.body(Body::empty()).unwrap()).await;
        }
        let media_type = if row.body.starts_with('{') { "application/json" } else { "message/rfc822" };
        let request = request.header("content-type", media_type);
        self.app.send(request.body(Body::from(numbered(row.body))).unwrap()).await
    }
}

fn outcome(answer: &Answer) -> (u16, String) {
    let is_json = answer.header("content-type").starts_with("application/json");
    let code = if answer.status.is_success() || !is_json { Value::Null } else { answer.json()["error"].clone() };
    (answer.status.as_u16(), code.as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_gets_what_is_theirs() {
    assert_eq!(PASSWORD, "correct horse", "the table's bodies name it");
    let setup = TestSetup::new().await;
    let mut wrong = Vec::new();
    for row in TABLE {
        let (granted, refused): (Vec<_>, Vec<_>) =
            setup.callers.iter().partition(|(who, _)| row.callers.includes(*who));
        for (who, token) in refused.into_iter().chain(granted) {
            let answer = setup.ask(row, *who, token).await;
            let (status, code) = row.expected(*who);
            if outcome(&answer) != (status, code.to_owned()) {
                wrong.push(format!("{}{} by {who:?}: {:?}", row.operation, row.query, outcome(&answer)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
