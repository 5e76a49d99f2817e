//! What happens to a webhook whose author loses the rights.

use std::collections::HashSet;

use mailapi_model::{EmailAddress, FolderName, TokenKind, TokenRecord};
use mailapi_service::Settings;
use mailapi_service::mail::SentQuery;
use mailapi_service::mailbox::PageView;
use mailapi_service::tokens::{CreateToken, UpdateToken};
use mailapi_store::{DisabledWebhook, WebhookProgress};

use super::*;

const NODE: &str = "0123456789abcdef";

fn root() -> EmailAddress {
    "root@example.org".parse().unwrap()
}

/// A server whose admin is root@example.org, and a receiver on this machine.
async fn with_root() -> (TestApp, Caller, TestReceiver) {
    let app = TestApp::start_with(|settings| {
        settings.service.admins = HashSet::from([root()]);
        // The next start has the same name, so it need not wait for the reservations of the former one.
        settings.service.node = Some(NODE.to_owned());
    })
    .await;
    app.user("root@example.org").await;
    (app, with(Grants::of_mailbox(root(), true, Vec::new())), TestReceiver::start().await)
}

/// Sends a message as root, and then what is due to webhooks.
async fn send_as_root(app: &TestApp, sender: &mut WebhookSender) {
    app.service.send(&Caller::operator(), message("root@example.org", &["root@example.org"])).await.unwrap();
    app.settle().await;
    run(sender).await;
}

async fn run(sender: &mut WebhookSender) {
    while sender.send_once().await.unwrap().more {}
}

/// Returns the reason why a webhook is disabled, and the reasons in the log.
async fn disabled(app: &TestApp, webhook: &Webhook) -> (Option<WebhookDisabled>, Vec<Value>) {
    while app.service.read_events_once().await.unwrap() {}
    let types = vec!["webhook.disabled".parse().unwrap()];
    let query = EventQuery { after: After::Start, types, ..EventQuery::default() };
    let log = app.service.list_events(&admin(), &query, 100, Duration::ZERO).await.unwrap().events;
    let reason = |body: &str| serde_json::from_str::<Value>(body).unwrap()["data"]["reason"].take();
    let reasons = log.iter().map(|event| reason(&event.body)).collect();
    (app.service.get_webhook(&admin(), webhook.id).await.unwrap().disabled_because, reasons)
}

#[tokio::test]
async fn a_former_admin_gets_no_events() {
    let (app, root, receiver) = with_root().await;
    let (webhook, _) = app.service.create_webhook(&root, to(&receiver.url)).await.unwrap();
    let mut sender = app.service.webhook_sender();
    send_as_root(&app, &mut sender).await;
    assert!(!receiver.take().is_empty());
    assert_eq!(disabled(&app, &webhook).await, (None, Vec::new()));

    // The next start has another list of admins.
    let later = app.beside(Settings { node: Some(NODE.to_owned()), ..Settings::default() }).await;
    let mut sender = later.webhook_sender();
    send_as_root(&app, &mut sender).await;
    assert!(receiver.take().is_empty());
    assert_eq!(disabled(&app, &webhook).await, (Some(WebhookDisabled::Permission), vec!["permission".into()]));

    // An admin who enables the webhook becomes its author. Nothing was lost.
    let enabled = later.enable_webhook(&admin(), webhook.id).await.unwrap();
    assert!(enabled.enabled && enabled.author != webhook.author, "{enabled:?}");
    run(&mut sender).await;
    assert!(receiver.types().contains(&"message.accepted".to_owned()));
}

#[tokio::test]
async fn a_webhook_of_a_deleted_admin_sends_nothing() {
    let (app, root, receiver) = with_root().await;
    app.user("bob@example.org").await;
    let (webhook, _) = app.service.create_webhook(&root, to(&receiver.url)).await.unwrap();
    let mut sender = app.service.webhook_sender();
    app.service.disable_user(&Caller::operator(), root.grants.mailbox().unwrap()).await.unwrap();
    let send = async |sender: &mut WebhookSender| {
        app.service.send(&Caller::operator(), message("bob@example.org", &["bob@example.org"])).await.unwrap();
        app.settle().await;
        run(sender).await;
    };
    send(&mut sender).await;
    assert!(receiver.take().is_empty());
    assert_eq!(disabled(&app, &webhook).await.0, None, "it waits while the account is disabled");
    app.service.enable_user(&Caller::operator(), root.grants.mailbox().unwrap()).await.unwrap();
    app.clock.advance(Duration::from_secs(60));
    run(&mut sender).await;
    assert!(!receiver.take().is_empty(), "it resumes where it stopped");
    app.service.delete_user(&Caller::operator(), root.grants.mailbox().unwrap()).await.unwrap();
    send(&mut sender).await;
    assert!(receiver.take().is_empty());
    assert_eq!(disabled(&app, &webhook).await.0, Some(WebhookDisabled::Permission));
}

/// Creates an API token of this kind, and returns its caller.
async fn token_of(app: &TestApp, kind: TokenKind, email: Option<EmailAddress>) -> (Caller, TokenRecord) {
    let expires_at = Some(app.clock.now().plus(Duration::from_secs(24 * 60 * 60)));
    let new = CreateToken { name: "hook".to_owned(), kind, email, expires_at };
    let (record, value) = app.service.create_token(&Caller::operator(), new).await.unwrap();
    (caller(app, value.expose()).await, record)
}

/// The ways in which a token ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Revoked,
    Disabled,
    Expired,
}

async fn end(app: &TestApp, token: &TokenRecord, how: End) {
    let operator = Caller::operator();
    match how {
        End::Revoked => app.service.revoke_token(&operator, token.id).await.unwrap(),
        End::Disabled => {
            let change = UpdateToken { is_active: Some(false), ..UpdateToken::default() };
            app.service.update_token(&operator, token.id, change).await.unwrap();
        }
        End::Expired => app.clock.advance(Duration::from_secs(25 * 60 * 60)),
    }
}

#[tokio::test]
async fn a_webhook_of_an_api_token_ends_with_the_token() {
    for how in [End::Revoked, End::Disabled, End::Expired] {
        let setup = Setup::new().await;
        let off = UpdateWebhook { enabled: Some(false), ..UpdateWebhook::default() };
        setup.app.service.update_webhook(&admin(), setup.webhook.id, off).await.unwrap();
        let (by, token) = token_of(&setup.app, TokenKind::Admin, None).await;
        let (webhook, _) = setup.app.service.create_webhook(&by, to(&setup.receiver.url)).await.unwrap();
        let mut sender = setup.app.service.webhook_sender();
        setup.send(&["ann@example.org"]).await;
        run(&mut sender).await;
        assert!(!setup.receiver.take().is_empty());
        end(&setup.app, &token, how).await;
        setup.send(&["ann@example.org"]).await;
        run(&mut sender).await;
        assert!(setup.receiver.take().is_empty(), "{how:?}");
        assert_eq!(disabled(&setup.app, &webhook).await.0, Some(WebhookDisabled::Permission), "{how:?}");
    }
}

#[tokio::test]
async fn rights_that_end_during_a_round_end_the_round() {
    let setup = Setup::new().await;
    let off = UpdateWebhook { enabled: Some(false), ..UpdateWebhook::default() };
    setup.app.service.update_webhook(&admin(), setup.webhook.id, off).await.unwrap();
    let (by, token) = token_of(&setup.app, TokenKind::Admin, None).await;
    setup.app.service.create_webhook(&by, to(&setup.receiver.url)).await.unwrap();
    let mut sender = setup.app.service.webhook_sender();
    setup.receiver.answer(&[HELD]);
    setup.send(&["ann@example.org"]).await;
    let round = tokio::spawn(async move {
        run(&mut sender).await;
    });
    setup.receiver.holds().await;
    end(&setup.app, &token, End::Revoked).await;
    setup.receiver.release.notify_one();
    round.await.unwrap();
    assert_eq!(setup.receiver.types(), ["message.accepted"], "the later events of the message were not sent");
}

#[tokio::test]
async fn a_users_webhook_ends_with_its_token() {
    let (port, authority, answered) = receiver_with_tls(true).await;
    let app = app_with_network(&authority).await;
    let ann = caller(&app, &app.user("ann@example.org").await).await;
    let own = ann.grants.mailbox().cloned();
    let (by, token) = token_of(&app, TokenKind::User, own.clone()).await;
    let (webhook, _) = app.service.create_webhook(&by, to(&format!("https://hook.example:{port}/"))).await.unwrap();
    let mut sender = app.service.webhook_sender();
    let count = || answered.swap(0, Ordering::SeqCst);
    let send = async |sender: &mut WebhookSender| {
        app.service.send(&ann, message("ann@example.org", &["ann@example.org"])).await.unwrap();
        app.settle().await;
        run(sender).await;
    };
    assert_eq!(count(), 1, "the challenge");
    send(&mut sender).await;
    assert!(count() >= 2);

    app.service.send(&ann, message("ann@example.org", &["ann@example.org"])).await.unwrap();
    app.settle().await;
    app.service.disable_user(&admin(), own.as_ref().unwrap()).await.unwrap();
    run(&mut sender).await;
    assert_eq!((count(), disabled(&app, &webhook).await.0), (0, None), "it waits for the account");
    app.service.enable_user(&admin(), own.as_ref().unwrap()).await.unwrap();
    app.clock.advance(Duration::from_secs(60));
    run(&mut sender).await;
    assert!(count() >= 2, "it resumes where it stopped");

    end(&app, &token, End::Revoked).await;
    send(&mut sender).await;
    assert_eq!((count(), disabled(&app, &webhook).await.0), (0, Some(WebhookDisabled::Permission)));
    let subject = format!("Webhook {} is disabled", webhook.id);
    assert_eq!(inbox(&app, own.as_ref().unwrap()).await.iter().filter(|found| **found == subject).count(), 1);
    // Its owner enables it with another token.
    assert!(app.service.enable_webhook(&ann, webhook.id).await.unwrap().enabled);
    run(&mut sender).await;
    assert!(count() >= 2);

    app.service.delete_user(&admin(), own.as_ref().unwrap()).await.unwrap();
    run(&mut sender).await;
    assert!(matches!(app.service.get_webhook(&admin(), webhook.id).await, Err(WebhookError::NotFound)));
    assert_eq!(count(), 0);
}

/// Returns the subjects in the inbox of a mailbox.
async fn inbox(app: &TestApp, email: &EmailAddress) -> Vec<String> {
    app.settle().await;
    let reader = Grants::admin_token().may_read(email).unwrap();
    let inbox = app.service.list_messages(&reader, &FolderName::inbox(), Page::default(), None).await.unwrap();
    let PageView::Now { listed: inbox, .. } = inbox else { panic!("a first read cannot be unchanged") };
    inbox.items.into_iter().map(|message| message.subject).collect()
}

#[tokio::test]
async fn the_admins_get_one_mail_about_a_disabled_webhook() {
    let (app, _, receiver) = with_root().await;
    app.user("bob@example.org").await;
    // The webhook of the operator belongs to the admins.
    let (webhook, _) = app.service.create_webhook(&admin(), to(&receiver.url)).await.unwrap();
    let mut sender = app.service.webhook_sender();
    receiver.answer(&["410 Gone"]);
    app.service.send(&admin(), message("bob@example.org", &["bob@example.org"])).await.unwrap();
    app.settle().await;
    run(&mut sender).await;
    assert_eq!(disabled(&app, &webhook).await.0, Some(WebhookDisabled::Gone));
    let expected = format!("Webhook {} is disabled", webhook.id);
    assert_eq!(inbox(&app, &root()).await, std::slice::from_ref(&expected));
    // Neither the next step nor the next start sends it again.
    app.clock.advance(Duration::from_secs(60));
    run(&mut sender).await;
    run(&mut app.service.webhook_sender()).await;
    assert_eq!(inbox(&app, &root()).await, [expected]);
    assert!(app.store.webhooks().notices().await.unwrap().is_empty());
    let sent = app.service.list_sent(&admin(), SentQuery::default(), Page::default()).await.unwrap();
    assert!(sent.items.iter().any(|sent| sent.from.as_str() == "postmaster@example.org"), "it is recorded");
}

#[tokio::test]
async fn a_mail_that_was_recorded_before_a_crash_is_not_sent_twice() {
    let (app, _, receiver) = with_root().await;
    let (webhook, _) = app.service.create_webhook(&admin(), to(&receiver.url)).await.unwrap();
    let mut sender = app.service.webhook_sender();
    receiver.answer(&["410 Gone"]);
    app.service.send(&admin(), message("root@example.org", &["elsewhere@example.net"])).await.unwrap();
    while app.service.read_events_once().await.unwrap() {}
    run(&mut sender).await;
    assert_eq!(inbox(&app, &root()).await.len(), 1);
    // The crash came before the mail was noted as sent.
    let sent = app.service.list_sent(&admin(), SentQuery::default(), Page::default()).await.unwrap();
    let notice = sent.items.iter().find(|sent| sent.subject.contains("disabled")).unwrap().message_id;
    let event = webhook_disabled(webhook.id, "", None, WebhookDisabled::Gone, EventId::of_fact(app.clock.now(), &[]));
    let again = app.service.enable_webhook(&admin(), webhook.id).await.unwrap();
    let progress = WebhookProgress {
        node: NODE.to_owned(),
        from: again.cursor,
        to: again.cursor,
        revision: again.revision,
        disabled: Some(DisabledWebhook { because: WebhookDisabled::Gone, event, notice }),
        ..WebhookProgress::default()
    };
    assert_eq!(app.store.webhooks().advance(webhook.id, &progress, app.clock.now()).await, Ok(true));
    run(&mut sender).await;
    assert_eq!(inbox(&app, &root()).await.len(), 1);
    assert!(app.store.webhooks().notices().await.unwrap().is_empty());
}
