//! Sending, and the status of sent mail.

use std::time::Duration;

use mailapi_backend::{Login, SendLimitReached};
use mailapi_model::{FolderName, MessageStatus, Page, RecipientStatus};
use mailapi_service::mail::{BodyHash, DeliveryLogFilter, IdempotencyKey, SendError, StatusError};
use mailapi_service::mailbox::PageView;
use mailapi_testkit::TestApp;

use crate::{caller, message};

#[tokio::test]
async fn sending_as_another_user_or_from_a_foreign_domain_is_refused() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let ann = caller(&app, &ann).await;
    let admin = caller(&app, app.admin()).await;

    let as_bob = app.service.send(&ann, message("bob@example.org", &["ann@example.org"])).await;
    assert!(matches!(as_bob, Err(SendError::SenderNotAuthorized)));
    let foreign = app.service.send(&admin, message("ann@elsewhere.example", &["ann@example.org"])).await;
    assert!(matches!(foreign, Err(SendError::DomainNotAllowed)));
    assert_eq!(app.service.list_sent(&admin, Default::default(), Page::default()).await.unwrap().total, 0);
}

#[tokio::test]
async fn one_unknown_recipient_bounces_and_the_others_get_their_mail() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let ann = caller(&app, &ann).await;

    let request = message("ann@example.org", &["bob@example.org", "nobody@example.org"]);
    let submitted = app.service.send(&ann, request).await.unwrap();
    let early = app.service.status(&ann, submitted.message_id).await.unwrap();
    assert_eq!(early.message.status, MessageStatus::Submitted);
    app.settle().await;

    let record = app.service.status(&ann, submitted.message_id).await.unwrap();
    assert_eq!(record.message.status, MessageStatus::Partial);
    let [bob, unknown] = &record.recipients[..] else { panic!("two recipients: {:?}", record.recipients) };
    assert_eq!((bob.status, bob.delivered_at.is_some()), (RecipientStatus::Sent, true));
    assert_eq!(unknown.status, RecipientStatus::Bounced);
    assert_eq!(unknown.dsn.map(|code| code.to_string()).as_deref(), Some("5.1.1"));

    let (admin, bob) = (caller(&app, app.admin()).await, "bob@example.org".parse().unwrap());
    let reader = admin.grants.may_read(&bob).unwrap();
    let inbox = app.service.list_messages(&reader, &FolderName::inbox(), Page::default(), None).await.unwrap();
    let PageView::Now { listed: inbox, .. } = inbox else { panic!("a first read cannot be unchanged") };
    assert_eq!((inbox.total, inbox.items[0].subject.as_str()), (1, "Hello"));
    assert_eq!(inbox.items[0].message_id, format!("<{}@example.org>", submitted.message_id));
}

#[tokio::test]
async fn a_send_to_one_file_is_one_write() {
    let app = TestApp::start().await;
    if !app.is_one_file() {
        return;
    }
    let ann = app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let ann = caller(&app, &ann).await;
    // The first message fills the caches.
    app.service.send(&ann, message("ann@example.org", &["bob@example.org"])).await.unwrap();

    let before = app.writes_begun();
    let sent = app.service.send(&ann, message("ann@example.org", &["bob@example.org", "nobody@example.org"])).await;
    assert_eq!(app.writes_begun() - before, 1);
    let record = app.service.status(&ann, sent.unwrap().message_id).await.unwrap();
    assert_eq!(record.message.status, MessageStatus::Submitted);
    assert_eq!(
        record.recipients.iter().map(|one| one.status).collect::<Vec<_>>(),
        [RecipientStatus::Submitted, RecipientStatus::Bounced]
    );
}

#[tokio::test]
async fn a_message_for_unknown_mailboxes_bounces_at_once() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    let (ann, admin) = (caller(&app, &ann).await, caller(&app, app.admin()).await);

    let sent = app.service.send(&ann, message("ann@example.org", &["nobody@example.org"])).await.unwrap();
    assert_eq!(sent.queue_id.0, sent.message_id.to_string());
    let record = app.service.status(&ann, sent.message_id).await.unwrap();
    assert_eq!(record.message.status, MessageStatus::Bounced);
    assert_eq!(record.recipients[0].status, RecipientStatus::Bounced);
    let filter = DeliveryLogFilter { message_id: Some(sent.message_id), ..Default::default() };
    let log = app.service.delivery_log(&admin, &filter, Page::default()).await.unwrap();
    let [entry] = &log.items[..] else { panic!("one entry: {log:?}") };
    assert_eq!(entry.event.dsn.map(|code| code.to_string()).as_deref(), Some("5.1.1"));
}

#[tokio::test]
async fn a_repeated_request_sends_once() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let ann = caller(&app, &ann).await;
    let request = |body: &[u8]| {
        let mut request = message("ann@example.org", &["bob@example.org"]);
        request.idempotency = Some(IdempotencyKey::new("invoice-17", BodyHash::of(body)).unwrap());
        request
    };

    let first = app.service.send(&ann, request(b"one")).await.unwrap();
    assert_eq!(app.service.send(&ann, request(b"one")).await.unwrap(), first);
    assert!(matches!(app.service.send(&ann, request(b"two")).await, Err(SendError::IdempotencyConflict)));
    assert_eq!(app.service.list_sent(&ann, Default::default(), Page::default()).await.unwrap().total, 1);

    app.clock.advance(std::time::Duration::from_secs(24 * 60 * 60 + 1));
    assert_ne!(app.service.send(&ann, request(b"two")).await.unwrap(), first, "the name is free again after a day");
}

#[tokio::test]
async fn a_foreign_message_looks_as_if_it_did_not_exist() {
    let app = TestApp::start().await;
    let (ann, bob) = (app.user("ann@example.org").await, app.user("bob@example.org").await);
    let (ann, bob) = (caller(&app, &ann).await, caller(&app, &bob).await);
    let sent = app.service.send(&ann, message("ann@example.org", &["bob@example.org"])).await.unwrap();
    assert!(matches!(app.service.status(&bob, sent.message_id).await, Err(StatusError::NotFound)));
    assert_eq!(app.service.list_sent(&bob, Default::default(), Page::default()).await.unwrap().total, 0);
}

#[tokio::test]
async fn a_new_owner_of_an_address_does_not_see_what_the_old_one_sent() {
    let app = TestApp::start().await;
    app.user("bob@example.org").await;
    let token = app.user("ann@example.org").await;
    let ann = caller(&app, &token).await;
    let sent = app.service.send(&ann, message("ann@example.org", &["bob@example.org"])).await.unwrap();
    let (admin, address) = (caller(&app, app.admin()).await, "ann@example.org".parse().unwrap());
    app.service.delete_user(&admin, &address).await.unwrap();

    app.clock.advance(std::time::Duration::from_secs(1));
    let token = app.user("ann@example.org").await;
    let other_ann = caller(&app, &token).await;
    assert!(matches!(app.service.status(&other_ann, sent.message_id).await, Err(StatusError::NotFound)));
    assert_eq!(app.service.list_sent(&other_ann, Default::default(), Page::default()).await.unwrap().total, 0);
    assert!(app.service.status(&admin, sent.message_id).await.is_ok());
}

#[tokio::test]
async fn a_request_repeated_in_progress_gets_the_same_answer() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let ann = caller(&app, &ann).await;
    let send = || {
        let mut request = message("ann@example.org", &["bob@example.org"]);
        request.idempotency = Some(IdempotencyKey::new("invoice-17", BodyHash::of(b"one")).unwrap());
        app.service.send(&ann, request)
    };
    let (first, second, third) = tokio::join!(send(), send(), send());
    let first = first.unwrap();
    assert_eq!((second.unwrap(), third.unwrap()), (first.clone(), first));
    assert_eq!(app.service.list_sent(&ann, Default::default(), Page::default()).await.unwrap().total, 1);
}

#[tokio::test]
async fn daily_limits_of_a_mailbox_count_all_listeners_together() {
    let app = TestApp::start_with(|settings| {
        (settings.service.messages_per_day, settings.service.recipients_per_day) = (3, 2);
    })
    .await;
    let (ann, bob) = (app.user("ann@example.org").await, app.user("bob@example.org").await);
    let (ann, bob) = (caller(&app, &ann).await, caller(&app, &bob).await);
    let reached = async |to: &[&str]| match app.service.send(&ann, message("ann@example.org", to)).await {
        Ok(_) => None,
        Err(SendError::LimitReached { reached, wait }) => {
            assert!(wait <= Duration::from_secs(24 * 60 * 60));
            Some(reached)
        }
        Err(error) => panic!("{error}"),
    };
    let three = ["a@example.org", "b@example.org", "c@example.org"];
    assert_eq!(reached(&three).await, Some(SendLimitReached::Recipients(2)));
    assert_eq!(reached(&["bob@example.org", "BOB@example.org", "other@elsewhere.example"]).await, None);
    assert_eq!(reached(&["new@elsewhere.example"]).await, Some(SendLimitReached::Recipients(2)));

    // Repetitions and rejected messages are not counted.
    let mut request = message("ann@example.org", &["bob@example.org"]);
    request.idempotency = Some(IdempotencyKey::new("invoice-17", BodyHash::of(b"one")).unwrap());
    for _ in 0..2 {
        app.service.send(&ann, request.clone()).await.unwrap();
    }
    let recipients = ["bob@example.org".parse().unwrap()];
    let (owner, other) = (&ann.grants, &bob.grants);
    assert_eq!(app.service.may_send_to(owner, &recipients).await, Ok(()));
    assert_eq!(app.service.may_send_to(owner, &recipients).await, Err(SendLimitReached::Messages(3)));
    assert_eq!(reached(&["bob@example.org"]).await, Some(SendLimitReached::Messages(3)));
    assert_eq!(app.service.may_send_to(other, &recipients).await, Ok(()));
    assert_eq!(app.service.list_sent(&ann, Default::default(), Page::default()).await.unwrap().total, 2);

    app.clock.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(reached(&["new@elsewhere.example"]).await, None);
}
