//! Rules and preferences at the mail server and in the accounts.

use mailapi_model::{ActionFields, EmailAddress, MailboxOptions, RuleFields, RuleSet, SaveSent};
use mailapi_service::Caller;
use mailapi_service::users::UserError;
use mailapi_testkit::TestApp;

fn address(text: &str) -> EmailAddress {
    text.parse().unwrap()
}

fn filing(folder: &str) -> Vec<RuleFields> {
    let action = ActionFields { kind: "folder".to_owned(), folder: Some(folder.to_owned()), ..ActionFields::default() };
    vec![RuleFields { name: "x".to_owned(), enabled: true, conditions: Vec::new(), actions: vec![action] }]
}

async fn replace(app: &TestApp, email: &str, rules: Vec<RuleFields>) -> Result<RuleSet, UserError> {
    app.service.replace_rules(&Caller::operator(), &address(email), rules).await
}

/// Returns the rules of the mail server; `None` if it does not apply any.
async fn known(app: &TestApp) -> Option<Vec<(EmailAddress, RuleSet)>> {
    app.mail_server.backend().provisioning.rules_after(None, 200).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mail_server_has_the_rules_of_the_accounts() {
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    if known(&app).await.is_none() {
        let refused = replace(&app, "ann@example.org", filing("A")).await;
        assert!(matches!(refused, Err(UserError::Invalid(_))), "{refused:?}");
        return;
    }
    let missing = replace(&app, "nobody@example.org", filing("A")).await;
    assert!(matches!(missing, Err(UserError::NotFound)), "{missing:?}");
    let rules = replace(&app, "ann@example.org", filing("A")).await.unwrap();
    assert_eq!(known(&app).await.unwrap(), [(address("ann@example.org"), rules)]);
    app.service.delete_user(&Caller::operator(), &address("ann@example.org")).await.unwrap();
    assert_eq!(known(&app).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_start_repairs_rules() {
    let app = TestApp::start().await;
    if known(&app).await.is_none() {
        return;
    }
    let mut expected = Vec::new();
    for n in 0..60 {
        let email = format!("u{n:02}@example.org");
        app.mailbox(&email, None).await;
        expected.push((address(&email), replace(&app, &email, filing("A")).await.unwrap()));
    }
    app.mailbox("zoe@example.org", None).await;
    let provisioning = app.mail_server.backend().provisioning;
    // As after a crash, or with a database that was restored.
    let stray = RuleSet::from_text("rule\ton\tx\ndo\tstop\n").unwrap();
    for (email, rules) in [("u00", &RuleSet::default()), ("u55", &stray), ("zoe", &stray)] {
        provisioning.repair_rules(&address(&format!("{email}@example.org")), rules).await.unwrap();
    }
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 3);
    assert_eq!(known(&app).await.unwrap(), expected);
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_start_repairs_preferences() {
    let app = TestApp::start().await;
    let (ann, bob) = (address("ann@example.org"), address("bob@example.org"));
    for email in ["ann@example.org", "bob@example.org"] {
        app.mailbox(email, None).await;
    }
    let provisioning = app.mail_server.backend().provisioning;
    if !provisioning.saves_sent() {
        return;
    }
    app.service.set_preferences(&Caller::operator(), &ann, SaveSent::Api).await.unwrap();
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 0);
    // As after a crash, or with a database that was restored.
    for (email, save_sent) in [(&ann, SaveSent::Off), (&bob, SaveSent::All)] {
        let options = MailboxOptions { quota_bytes: None, save_sent };
        provisioning.repair_mailbox(email, Some(options)).await.unwrap();
    }
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 2);
    let known = provisioning.mailboxes_after(None, 10).await.unwrap().unwrap();
    let known: Vec<_> = known.iter().map(|known| (&known.address, known.options.save_sent)).collect();
    assert_eq!(known, [(&ann, SaveSent::Api), (&bob, SaveSent::Off)]);
}
