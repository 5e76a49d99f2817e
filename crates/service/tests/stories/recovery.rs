//! Recovery of the state that a crash leaves.

use std::time::Duration;

use bytes::Bytes;
use mailapi_backend::{Backend, Recorded, SubmitError};
use mailapi_model::{AccountChange, Clock as _, Envelope, MessageId, MessageStatus, NewAccount, RecipientKind, Secret};
use mailapi_service::{Reconciled, Recovered};
use mailapi_store::NewSent;
use mailapi_testkit::{SeededEntropy, TestApp};

use crate::caller;

/// Stores what `send` stores before it submits the message.
pub(crate) async fn begin(app: &TestApp, seed: u64, to: &[&str]) -> Envelope {
    begin_at(app, seed, to, None).await
}

async fn begin_at(app: &TestApp, seed: u64, to: &[&str], node: Option<&str>) -> Envelope {
    let recipients: Vec<_> = to.iter().map(|address| (address.parse().unwrap(), RecipientKind::To)).collect();
    let from: mailapi_model::EmailAddress = "ann@example.org".parse().unwrap();
    let message_id = MessageId::random(app.clock.now(), &SeededEntropy::new(seed));
    let new = NewSent {
        message_id,
        token_id: None,
        mailbox: Some(from.clone()),
        from: from.clone(),
        to: recipients.iter().map(|(address, _): &(mailapi_model::EmailAddress, _)| address.clone()).collect(),
        subject: "Hello".into(),
        recipient_count: recipients.len(),
        created_at: app.clock.now(),
        idempotency: None,
        node: node.map(str::to_owned),
        size: None,
        recipients: recipients.clone(),
    };
    app.store.sent().begin(&new).await.unwrap();
    Envelope {
        message_id,
        sender: Some(from),
        recipients: recipients.into_iter().map(|(address, _)| address).collect(),
    }
}

async fn submit(backend: &Backend, envelope: &Envelope) -> Result<(), SubmitError> {
    let message = Bytes::from_static(b"From: ann@example.org\r\nSubject: Hello\r\n\r\nHello\r\n");
    backend.submission.submit(envelope.clone(), message.into(), &Recorded).await.map(drop)
}

#[tokio::test]
async fn a_submitted_message_is_found_and_another_has_failed() {
    let app = TestApp::start().await;
    app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let taken = begin(&app, 7, &["bob@example.org", "nobody@example.org"]).await;
    submit(&app.mail_server.backend(), &taken).await.unwrap();
    let lost = begin(&app, 8, &["bob@example.org"]).await;

    let recovered = app.service.recover_once(Duration::ZERO).await.unwrap();
    assert_eq!(recovered, Recovered { submitted: 1, failed: 1, open: 0 });
    app.settle().await;
    let admin = caller(&app, app.admin()).await;
    let status = |id| app.service.status(&admin, id);
    assert_eq!(status(taken.message_id).await.unwrap().message.status, MessageStatus::Partial);
    assert_eq!(status(lost.message_id).await.unwrap().message.status, MessageStatus::Failed);
    assert_eq!(app.service.recover_once(Duration::ZERO).await.unwrap(), Recovered::default());
}

#[tokio::test]
async fn handing_over_twice_delivers_once() {
    let app = TestApp::start().await;
    app.user("bob@example.org").await;
    let envelope = begin(&app, 7, &["bob@example.org"]).await;
    let backend = app.mail_server.backend();
    submit(&backend, &envelope).await.unwrap();
    submit(&backend, &envelope).await.unwrap();
    let bob = "bob@example.org".parse().unwrap();
    assert_eq!(backend.mailboxes.quota(&bob).await.unwrap().messages, 1);
}

#[tokio::test]
async fn a_fresh_message_is_left_to_the_process_that_submits_it() {
    let app = TestApp::start().await;
    app.user("bob@example.org").await;
    begin(&app, 7, &["bob@example.org"]).await;
    let minute = Duration::from_secs(60);
    assert_eq!(app.service.recover_once(minute).await.unwrap(), Recovered::default());
    app.clock.advance(minute);
    assert_eq!(app.service.recover_once(minute).await.unwrap().failed, 1);
}

#[tokio::test]
async fn a_message_of_another_node_is_not_marked_failed() {
    let app = TestApp::start_with(|settings| settings.service.node = Some("here".to_owned())).await;
    app.user("bob@example.org").await;
    let theirs = begin_at(&app, 8, &["bob@example.org"], Some("there")).await;
    begin_at(&app, 9, &["bob@example.org"], Some("here")).await;
    let recovered = app.service.recover_once(Duration::ZERO).await.unwrap();
    assert_eq!(recovered.open + recovered.failed, 2, "{recovered:?}");
    let found = app.store.sent().get(theirs.message_id).await.unwrap().unwrap();
    assert_eq!(found.message.status, MessageStatus::Pending, "only the node that accepted the message has it");
}

#[tokio::test]
async fn however_many_were_interrupted_each_has_its_turn() {
    let app = TestApp::start().await;
    app.user("bob@example.org").await;
    for seed in 0..502 {
        begin(&app, seed, &["bob@example.org"]).await;
    }
    assert_eq!(app.service.recover_once(Duration::ZERO).await.unwrap().failed, 502);
}

#[tokio::test]
async fn reconciliation_creates_missing_mailboxes() {
    let app = TestApp::start().await;
    app.domain("example.org").await;
    // The state after a crash before the mail server was changed.
    let without_mail_server = app.another_node().await;
    for n in 0..3 {
        let account = NewAccount {
            email: format!("user{n}@example.org").parse().unwrap(),
            name: String::new(),
            password_hash: Secret::new(String::new()),
            quota_bytes: None,
            created_at: app.clock.now(),
        };
        without_mail_server.accounts().insert(&account).await.unwrap();
    }
    app.mailbox("user9@example.org", None).await;
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 3);
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 0);
    app.deliver("eve@example.net", "user1@example.org", "Subject: Hi\n\nHello\n").await;
}

#[tokio::test]
async fn reconciliation_sets_a_quota_that_a_crash_left_unset() {
    let app = TestApp::start().await;
    for name in ["ann", "bob", "cid"] {
        app.user(&format!("{name}@example.org")).await;
    }
    let bob = "bob@example.org".parse().unwrap();
    let without_mail_server = app.another_node().await;
    let limit = async || app.mail_server.backend().mailboxes.quota(&bob).await.unwrap().limit_bytes;
    for quota_bytes in [Some(1_048_576), Some(2_097_152), None] {
        // An operation makes this change before it changes the mail server.
        let change = AccountChange { quota_bytes: Some(quota_bytes), ..AccountChange::default() };
        let now = app.clock.now();
        assert!(without_mail_server.accounts().update(&bob, &change, now).await.unwrap());
        assert_ne!(limit().await, quota_bytes);
        assert_eq!(app.service.reconcile().await.unwrap().repaired, 1);
        assert_eq!(limit().await, quota_bytes);
    }
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 0);
}

#[tokio::test]
async fn mail_without_an_account_is_kept_apart_from_the_next_owner() {
    let app = TestApp::start().await;
    for name in ["ann", "bob", "eve"] {
        app.mailbox(&format!("{name}@example.org"), None).await;
    }
    app.deliver("cid@far.example", "bob@example.org", "Subject: Secret\n\nFor the earlier owner\n").await;
    let without_mail_server = app.another_node().await;
    let address = |name: &str| -> mailapi_model::EmailAddress { format!("{name}@example.org").parse().unwrap() };
    for gone in ["bob", "eve"] {
        assert!(without_mail_server.accounts().delete(&address(gone), app.clock.now()).await.unwrap());
    }
    without_mail_server.domains().insert(&pending("late.example", &app), None).await.unwrap();

    let reconciled = app.service.reconcile().await.unwrap();
    assert_eq!(reconciled.repaired, 2);
    let [kept] = &reconciled.quarantined[..] else { panic!("{reconciled:?}") };
    assert_eq!((&kept.address, kept.messages), (&address("bob"), 1), "an empty mailbox has nothing to keep");
    let backend = app.mail_server.backend();
    let known = backend.provisioning.mailboxes_after(None, 10).await.unwrap().unwrap();
    assert_eq!(known.into_iter().map(|known| known.address).collect::<Vec<_>>(), [address("ann")]);

    app.mailbox("bob@example.org", None).await;
    assert_eq!(backend.mailboxes.quota(&address("bob")).await.unwrap().messages, 0);
    let again = app.service.reconcile().await.unwrap();
    assert_eq!((again.repaired, again.quarantined.len()), (0, 1), "the mailbox stays in quarantine");
}

fn pending(name: &str, app: &TestApp) -> mailapi_model::NewDomain {
    let created_at = app.clock.now();
    let (creator_email, description) = (None, None);
    mailapi_model::NewDomain { name: name.parse().unwrap(), active: false, description, creator_email, created_at }
}

#[tokio::test]
async fn a_mailbox_that_outlived_its_account_is_not_the_next_owners() {
    let app = TestApp::start().await;
    app.mailbox("bob@example.org", None).await;
    app.deliver("cid@far.example", "bob@example.org", "Subject: Secret\n\nFor the earlier owner\n").await;
    let bob = "bob@example.org".parse().unwrap();
    assert!(app.another_node().await.accounts().delete(&bob, app.clock.now()).await.unwrap());
    // Without a restart in between.
    app.mailbox("bob@example.org", Some(1_048_576)).await;
    let held = app.mail_server.backend().mailboxes.quota(&bob).await.unwrap();
    assert_eq!((held.messages, held.limit_bytes), (0, Some(1_048_576)));
    assert_eq!(app.service.quarantined().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_account_missing_from_the_database_keeps_its_mailbox() {
    let app = TestApp::start().await;
    app.mailbox("bob@example.org", None).await;
    app.deliver("cid@far.example", "bob@example.org", "Subject: Hi\n\nHello\n").await;
    let bob = "bob@example.org".parse().unwrap();
    app.another_node().await.accounts().delete(&bob, app.clock.now()).await.unwrap();
    assert_eq!(app.service.reconcile().await.unwrap(), Reconciled::default());
    assert_eq!(app.mail_server.backend().mailboxes.quota(&bob).await.unwrap().messages, 1);
}

#[tokio::test]
async fn a_domain_missing_from_the_database_stays_in_the_mail_server() {
    let app = TestApp::start().await;
    app.mailbox("bob@example.org", None).await;
    let domain = "example.org".parse().unwrap();
    app.another_node().await.domains().delete(&domain, true, app.clock.now()).await.unwrap();
    assert_eq!(app.service.reconcile().await.unwrap(), Reconciled::default());
    let domains = app.mail_server.backend().provisioning.domains().await.unwrap();
    assert!(domains.unwrap().contains(&domain));
}
