//! Webhooks that were registered before webhooks had authors, after the upgrade to migration 18.

use std::collections::HashSet;

use mailapi_model::{EmailAddress, TokenId, WebhookAuthor};
use mailapi_testkit::{OlderDatabase, TestEngine};

use super::*;

/// The last migration without authors.
const WITHOUT_AUTHORS: u32 = 17;

/// Domains, accounts and tokens. A token is numbered by its place: 1 is an admin's, 2 to 4 are sessions of the admin
/// root, of a former admin and of a deleted one, 5 and 6 are Ann's token and session, 7 and 8 are revoked tokens.
const PEOPLE: &str = "
    INSERT INTO domains (name, active, created_at, approved) VALUES ('example.org', TRUE, 1, TRUE);
    INSERT INTO accounts (email, domain, name, name_folded, password_hash, active, created_at, updated_at) VALUES
        ('root@example.org', 'example.org', '', '', '*', TRUE, 1, 1),
        ('former@example.org', 'example.org', '', '', '*', TRUE, 1, 1),
        ('ann@example.org', 'example.org', '', '', '*', TRUE, 1, 1);
    INSERT INTO tokens (hash, prefix, kind, email, email_given, name, is_active, is_session, is_removed, is_revoked,
        created_at) VALUES
        (BLOB'01', 'a', 'admin', NULL, NULL, '', TRUE, FALSE, FALSE, FALSE, 1),
        (BLOB'02', 'a', 'admin', 'root@example.org', 'Root@example.org', '', TRUE, TRUE, FALSE, FALSE, 1),
        (BLOB'03', 'a', 'admin', 'former@example.org', NULL, '', TRUE, TRUE, FALSE, FALSE, 1),
        (BLOB'04', 'a', 'admin', 'gone@example.org', NULL, '', FALSE, TRUE, TRUE, FALSE, 1),
        (BLOB'05', 'a', 'user', 'ann@example.org', NULL, '', TRUE, FALSE, FALSE, FALSE, 1),
        (BLOB'06', 'a', 'user', 'ann@example.org', NULL, '', TRUE, TRUE, FALSE, FALSE, 1),
        (BLOB'07', 'a', 'admin', NULL, NULL, '', FALSE, FALSE, FALSE, TRUE, 1),
        (BLOB'08', 'a', 'user', 'ann@example.org', NULL, '', FALSE, FALSE, FALSE, TRUE, 1);
";

/// A webhook of the older version, and what becomes of it.
struct Older {
    owner: Option<&'static str>,
    token: Option<i64>,
    author: WebhookAuthor,
    sends: bool,
}

fn of_admins(token: Option<i64>, author: WebhookAuthor, sends: bool) -> Older {
    Older { owner: None, token, author, sends }
}

fn of_ann(token: i64, kept: Option<i64>, sends: bool) -> Older {
    let author = WebhookAuthor::User(email("ann"), kept.map(TokenId));
    Older { owner: Some("ann@example.org"), token: Some(token), author, sends }
}

fn email(name: &str) -> EmailAddress {
    format!("{name}@example.org").parse().unwrap()
}

/// All kinds of webhooks. The token 99 was a session that is deleted.
fn all_kinds() -> Vec<Older> {
    let (token, admin) = (|id| WebhookAuthor::AdminToken(TokenId(id)), |name| WebhookAuthor::Admin(email(name)));
    vec![
        of_admins(None, WebhookAuthor::Operator, true),
        of_admins(Some(1), token(1), true),
        of_admins(Some(2), admin("Root"), true),
        of_admins(Some(3), admin("former"), false),
        of_admins(Some(4), admin("gone"), false),
        of_admins(Some(7), token(7), false),
        of_admins(Some(99), token(99), false),
        of_ann(5, Some(5), true),
        of_ann(6, None, true),
        of_ann(99, None, true),
        of_ann(8, Some(8), false),
    ]
}

/// Returns the statements that add the rows of the older version.
fn rows(engine: TestEngine, webhooks: &[(Older, TestReceiver)]) -> String {
    let mut sql = PEOPLE.to_owned();
    for (webhook, receiver) in webhooks {
        let owner = webhook.owner.map_or("NULL".to_owned(), |owner| format!("'{owner}'"));
        let token = webhook.token.map_or("NULL".to_owned(), |token| token.to_string());
        let (url, key) = (&receiver.url, "07".repeat(32));
        sql += &format!(
            "INSERT INTO webhooks (url, types, mailbox, owner, token_id, counted_domain, description, signing, \
             signing_key, enabled, cursor, created_at, updated_at) VALUES \
             ('{url}', '*', {owner}, {owner}, {token}, '', '', 'v1', BLOB'{key}', TRUE, 0, 1, 1);\n"
        );
    }
    match engine {
        TestEngine::Sqlite => sql.replace("BLOB'", "X'"),
        TestEngine::Postgres => sql.replace("BLOB'", "'\\x"),
    }
}

async fn upgraded(engine: TestEngine, webhooks: &[(Older, TestReceiver)]) -> TestApp {
    let app = TestApp::start_with(|settings| {
        settings.engine = Some(engine);
        settings.older = Some(OlderDatabase { version: WITHOUT_AUTHORS, rows: rows(engine, webhooks) });
        settings.service.admins = HashSet::from([email("root"), email("gone")]);
    })
    .await;
    app.service.reconcile().await.unwrap();
    app
}

#[tokio::test]
async fn older_webhooks_get_their_authors_and_no_more_rights() {
    for engine in [TestEngine::Sqlite, TestEngine::Postgres] {
        let mut webhooks = Vec::new();
        for older in all_kinds() {
            webhooks.push((older, TestReceiver::start().await));
        }
        let app = upgraded(engine, &webhooks).await;
        app.service.send(&Caller::operator(), message("ann@example.org", &["ann@example.org"])).await.unwrap();
        app.settle().await;
        while app.service.read_events_once().await.unwrap() {}
        let mut sender = app.service.webhook_sender();
        while sender.send_once().await.unwrap().more {}

        for (id, (older, receiver)) in (1..).zip(&webhooks) {
            let webhook = app.service.get_webhook(&admin(), WebhookId(id)).await.unwrap();
            let lost = (!older.sends).then_some(WebhookDisabled::Permission);
            assert_eq!((&webhook.author, webhook.disabled_because), (&older.author, lost), "{engine:?} {id}");
            let got = receiver.types().contains(&"message.accepted".to_owned());
            // Users have no receivers on this machine: the attempt shows that the webhook has its rights.
            let attempts = (got, webhook.failing_since.is_some());
            assert_eq!(attempts, (older.sends && older.owner.is_none(), older.sends && older.owner.is_some()), "{id}");
        }
    }
}
