use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use mailapi_backend::{Attempt, Mailboxes, Provisioning, Recorded, Refusal, Submission, SubmitError};
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_backend_embedded::accept::{AcceptError, Incoming, RecipientCheck, Relaying};
use mailapi_model::{Blob, ClientNetwork, Clock, Envelope, MessageId, Page, ReversePath, Timestamp};
use mailapi_testkit::SeededEntropy;

use super::test_store::{TestStore, address, ann, bob, bytes, folder, mail};

fn codes(refused: &[Refusal]) -> Vec<String> {
    refused.iter().map(|r| format!("{} {} {}", r.recipient, r.reply.code, r.reply.enhanced.unwrap())).collect()
}

pub(crate) fn nothing_was_written(test_store: &TestStore) {
    for table in ["messages", "chunks", "entries", "queue", "queue_recipients", "feed", "accepted", "unindexed"] {
        assert_eq!(test_store.number(&format!("SELECT count(*) FROM drop_{table}")), 0, "{table}");
    }
}

#[tokio::test]
async fn mail_without_a_local_recipient_is_refused_and_not_stored() {
    let test_store = TestStore::new().await;
    let mut incoming = test_store.incoming(&["nobody@example.org", "carl@elsewhere.example"], &mail("Hi", "."));
    incoming.relaying = Relaying::Denied;
    let Err(AcceptError::NoRecipients(refused)) = test_store.message_store.accept(incoming).await else { panic!() };
    assert_eq!(codes(&refused), ["nobody@example.org 550 5.1.1", "carl@elsewhere.example 550 5.7.1"]);
    nothing_was_written(&test_store);
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_as_a_whole() {
    let test_store =
        TestStore::with(MessageStoreSettings { max_message_bytes: 100, ..MessageStoreSettings::default() }).await;
    let refused = test_store
        .message_store
        .accept(test_store.incoming(&["ann@example.org"], &mail("Hi", &"x".repeat(100 + 16 * 1024))))
        .await;
    let Err(AcceptError::Refused(reply)) = refused else { panic!() };
    assert_eq!(reply.to_string(), "552 5.3.4 The message exceeds the maximum size");
    nothing_was_written(&test_store);
}

#[tokio::test]
async fn a_full_mailbox_is_refused_and_the_others_get_the_message() {
    let test_store = TestStore::new().await;
    test_store.message_store.put_mailbox(&ann(), Some(10)).await.unwrap();
    let taken = test_store
        .message_store
        .accept(test_store.incoming(&["ann@example.org", "bob@example.org", "BOB@example.org"], &mail("Hi", ".")))
        .await
        .unwrap();
    assert_eq!(codes(&taken.refused), ["ann@example.org 552 5.2.2"]);
    assert_eq!(taken.delivered, [bob()]);
    assert_eq!(test_store.message_store.quota(&ann()).await.unwrap().messages, 0);
    assert_eq!(test_store.message_store.quota(&bob()).await.unwrap().messages, 1);
}

/// Addresses of bob with tags.
fn tags(number: usize) -> Vec<String> {
    (0..number).map(|tag| format!("bob+{tag}@example.org")).collect()
}

fn as_str(recipients: &[String]) -> Vec<&str> {
    recipients.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn a_mailbox_gets_ten_copies_however_many_tags_there_are() {
    let test_store = TestStore::new().await;
    let recipients = tags(1_000);
    let incoming = test_store.incoming(&as_str(&recipients), &mail("Hi", "."));
    let taken = test_store.message_store.accept(incoming).await.unwrap();
    assert_eq!((taken.delivered.len(), taken.refused), (1_000, Vec::new()));
    assert_eq!(test_store.message_store.quota(&bob()).await.unwrap().messages, 10);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 10, "each copy has an identifier of its own");
    assert_eq!(test_store.number("SELECT count(*) FROM drop_feed"), 1_000, "each recipient has a status");
}

#[tokio::test]
async fn all_copies_of_a_message_fit_in_the_quota() {
    let test_store = TestStore::new().await;
    let text = mail("Hi", &"x".repeat(1_000));
    test_store.message_store.put_mailbox(&bob(), Some(4_000)).await.unwrap();
    let recipients = tags(5);
    let taken = test_store.message_store.accept(test_store.incoming(&as_str(&recipients), &text)).await.unwrap();
    assert_eq!(codes(&taken.refused), ["bob+3@example.org 552 5.2.2", "bob+4@example.org 552 5.2.2"]);
    let quota = test_store.message_store.quota(&bob()).await.unwrap();
    assert!(quota.messages == 3 && quota.used_bytes <= 4_000, "{quota:?}");
}

#[tokio::test]
async fn a_message_does_not_wait_for_those_with_many_recipients() {
    let test_store = TestStore::new().await;
    let completed = Arc::new(AtomicUsize::new(0));
    let recipients = tags(500);
    let many = (0..20).map(|_| {
        let (store, completed) = (test_store.message_store.clone(), completed.clone());
        let incoming = test_store.incoming(&as_str(&recipients), &mail("Hi", "."));
        async move {
            store.accept(incoming).await.unwrap();
            completed.fetch_add(1, Ordering::Relaxed);
        }
    });
    let one = async {
        test_store.message_store.accept(test_store.incoming(&["ann@example.org"], &mail("Hi", "."))).await.unwrap();
        completed.load(Ordering::Relaxed)
    };
    let (_, before) = tokio::join!(join_all(many), one);
    assert!(before <= 2, "{before} messages with 500 recipients came first");
    assert_eq!(completed.load(Ordering::Relaxed), 20);
}

#[tokio::test]
async fn clients_take_turns_with_messages_for_many_recipients() {
    let test_store = TestStore::new().await;
    let completed = Arc::new(AtomicUsize::new(0));
    let recipients = tags(100);
    let accepted = |address: Option<&str>| {
        let (store, completed) = (test_store.message_store.clone(), completed.clone());
        let client = address.map(|address| ClientNetwork::of(address.parse().unwrap()));
        let incoming = Incoming { client, ..test_store.incoming(&as_str(&recipients), &mail("Hi", ".")) };
        async move {
            store.accept(incoming).await.unwrap();
            completed.fetch_add(1, Ordering::Relaxed)
        }
    };
    let of_one_stranger = join_all((0..20).map(|_| accepted(Some("192.0.2.1"))));
    let (_, of_another, of_a_user) = tokio::join!(of_one_stranger, accepted(Some("192.0.2.2")), accepted(None));
    assert!(of_a_user <= 2 && of_another <= 4, "{of_a_user} and {of_another} messages came first");
    assert_eq!(completed.load(Ordering::Relaxed), 22);
}

#[tokio::test]
async fn a_step_that_fails_leaves_nothing_of_the_message() {
    for (table, event) in
        [("chunks", "INSERT"), ("queue_recipients", "INSERT"), ("feed", "INSERT"), ("accepted", "INSERT")]
    {
        let test_store = TestStore::new().await;
        test_store
            .database()
            .execute_batch(&format!(
                "CREATE TRIGGER stop AFTER {event} ON drop_{table} BEGIN SELECT RAISE(FAIL, 'stopped'); END"
            ))
            .unwrap();
        let envelope = envelope(&["ann@example.org", "carl@elsewhere.example"]);
        let submitted = test_store.message_store.submit(envelope, Blob::from(mail("Hi", ".")), &Recorded).await;
        assert!(matches!(submitted, Err(SubmitError::Unavailable(_))), "{table}");
        nothing_was_written(&test_store);
    }
}

fn envelope(recipients: &[&str]) -> Envelope {
    let recipients = recipients.iter().map(|r| r.parse().unwrap()).collect();
    let sender: ReversePath = Some(bob());
    Envelope { message_id: MessageId::random(Timestamp::from_millis(0), &SeededEntropy::new(7)), sender, recipients }
}

#[tokio::test]
async fn a_message_lies_once_on_disk_and_in_every_inbox() {
    let test_store = TestStore::new().await;
    let message = mail("Hi", "Hello.");
    test_store.deliver(&["ann@example.org", "bob@example.org"], &message).await;
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 1);
    assert_eq!(test_store.number("SELECT refs FROM drop_messages"), 2);
    for mailbox in [ann(), bob()] {
        let listed = test_store.message_store.list(&mailbox, &folder("INBOX"), Page::default()).await.unwrap();
        assert_eq!((listed.total, listed.items[0].uid), (1, 1));
        let raw = test_store.message_store.open_raw(&mailbox, &folder("INBOX"), 1).await.unwrap();
        let expected = format!("Return-Path: <eve@elsewhere.example>\r\nDelivered-To: {mailbox}\r\n{message}");
        assert_eq!(raw.size, expected.len() as u64);
        assert_eq!(bytes(raw.content).await.unwrap(), expected.as_bytes());
    }
}

/// Returns the query after a crash during this submission.
fn attempt(envelope: &Envelope) -> Attempt {
    let sender = envelope.sender.clone().unwrap();
    Attempt { message_id: envelope.message_id, sender, since: Timestamp::from_seconds(0), by_this_node: true }
}

#[tokio::test]
async fn a_message_from_the_api_is_accepted_once_and_found_again() {
    let test_store = TestStore::new().await;
    let envelope = envelope(&["ann@example.org", "nobody@example.org", "carl@elsewhere.example"]);
    assert_eq!(test_store.message_store.find(&attempt(&envelope)).await.unwrap(), None);
    let message = Blob::from(mail("Hi", "."));
    let first = test_store.message_store.submit(envelope.clone(), message.clone(), &Recorded).await.unwrap();
    assert_eq!(codes(&first.refused), ["nobody@example.org 550 5.1.1"]);
    let again = test_store.open_again().await;
    assert_eq!(again.submit(envelope.clone(), message, &Recorded).await.unwrap(), first);
    assert_eq!(again.find(&attempt(&envelope)).await.unwrap(), Some(first));
    assert_eq!(test_store.number("SELECT count(*) FROM drop_entries"), 1);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue_recipients"), 1);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_feed"), 1);
}

#[tokio::test]
async fn old_submissions_are_forgotten() {
    let test_store = TestStore::new().await;
    let envelope = envelope(&["ann@example.org", "nobody@example.org"]);
    test_store.message_store.submit(envelope.clone(), Blob::from(mail("Hi", ".")), &Recorded).await.unwrap();
    test_store.message_store.maintain_until_done().await.unwrap();
    assert!(test_store.message_store.find(&attempt(&envelope)).await.unwrap().is_some());
    test_store.advance(31 * 24 * 60 * 60);
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.message_store.find(&attempt(&envelope)).await.unwrap(), None);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_accepted_refusals"), 0);
}

#[tokio::test]
async fn a_recipient_is_judged_before_the_message_comes() {
    let test_store = TestStore::new().await;
    test_store.message_store.put_mailbox(&bob(), Some(1_000)).await.unwrap();
    let ask = async |recipient: &str, size, relaying| match test_store.check(recipient, size, relaying).await {
        RecipientCheck::Refused(reply) => reply.code.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(ask("nobody@example.org", 0, Relaying::Allowed).await, "550");
    assert_eq!(ask("carl@elsewhere.example", 0, Relaying::Denied).await, "550");
    // Another server retries; a local author gets the permanent refusal.
    assert_eq!(ask("bob@example.org", 1_001, Relaying::Denied).await, "452");
    assert_eq!(ask("bob@example.org", 1_001, Relaying::Allowed).await, "552");
    assert_eq!(ask("bob@example.org", 1_000, Relaying::Denied).await, "Local");
    assert_eq!(ask("carl@elsewhere.example", 0, Relaying::Allowed).await, "Remote");
}

#[tokio::test]
async fn mailboxes_come_back_empty_when_they_go() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], &mail("one", ".")).await;
    let before = test_store.message_store.folder(&ann(), &folder("INBOX")).await.unwrap();
    for _ in 0..2 {
        test_store.message_store.remove_mailbox(&ann()).await.unwrap();
    }
    assert!(test_store.message_store.folder(&ann(), &folder("INBOX")).await.is_err());
    for _ in 0..2 {
        test_store.message_store.put_mailbox(&ann(), None).await.unwrap();
    }
    let after = test_store.message_store.folder(&ann(), &folder("INBOX")).await.unwrap();
    assert_eq!((after.messages, after.size, after.uid_next), (0, 0, 1));
    assert!(after.uid_validity > before.uid_validity);
    assert!(test_store.clock.now().as_seconds() > 0);
}

#[tokio::test]
async fn a_mailbox_of_a_domain_that_is_not_ours_captures_no_mail() {
    let test_store = TestStore::new().await;
    let squatter = address("ceo@elsewhere.example");
    test_store.message_store.put_mailbox(&squatter, None).await.unwrap();
    let mut from_outside = test_store.incoming(&["ceo@elsewhere.example"], &mail("Hi", "."));
    from_outside.relaying = Relaying::Denied;
    let Err(AcceptError::NoRecipients(refused)) = test_store.message_store.accept(from_outside).await else { panic!() };
    assert_eq!(codes(&refused), ["ceo@elsewhere.example 550 5.7.1"]);
    let mut notice = test_store.incoming(&["ceo@elsewhere.example"], &mail("Undelivered", "."));
    notice.sender = None;
    for ours in [test_store.incoming(&["ceo@elsewhere.example"], &mail("Hi", ".")), notice] {
        let taken = test_store.message_store.accept(ours).await.unwrap();
        assert_eq!(
            (taken.delivered, taken.queued),
            (Vec::new(), vec![squatter.clone()]),
            "it goes to the domain's server"
        );
    }
    assert_eq!(test_store.message_store.quota(&squatter).await.unwrap().messages, 0);
    test_store.message_store.put_domain(&squatter.domain()).await.unwrap();
    test_store.deliver(&["ceo@elsewhere.example"], &mail("Welcome", ".")).await;
    assert_eq!(test_store.message_store.quota(&squatter).await.unwrap().messages, 1, "after the domain became local");
}

#[tokio::test]
async fn mail_to_a_removed_domain_is_refused_and_its_mail_is_kept() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], &mail("one", ".")).await;
    test_store.message_store.remove_domain(&"example.org".parse().unwrap()).await.unwrap();
    let taken =
        test_store.message_store.accept(test_store.incoming(&["ann@example.org"], &mail("two", "."))).await.unwrap();
    assert_eq!(taken.queued, [ann()]);
    assert_eq!(test_store.message_store.quota(&ann()).await.unwrap().messages, 1);
}

#[tokio::test]
async fn mail_with_a_tag_goes_to_the_mailbox_before_it() {
    let test_store = TestStore::new().await;
    let tagged = ["bob+shop@example.org", "nobody+x@example.org", "+x@example.org", "bob+@example.org"];
    let taken = test_store.message_store.accept(test_store.incoming(&tagged, &mail("Hi", "."))).await.unwrap();
    assert_eq!(codes(&taken.refused), ["nobody+x@example.org 550 5.1.1", "+x@example.org 550 5.1.1"]);
    assert_eq!(test_store.message_store.quota(&bob()).await.unwrap().messages, 2);
    let check = test_store.check("bob+a+b@example.org", 0, Relaying::Denied).await;
    assert_eq!(check, RecipientCheck::Local);

    test_store.message_store.put_mailbox(&address("bob+own@example.org"), None).await.unwrap();
    test_store.message_store.accept(test_store.incoming(&["bob+own@example.org"], &mail("Hi", "."))).await.unwrap();
    assert_eq!(
        test_store.message_store.quota(&bob()).await.unwrap().messages,
        2,
        "a mailbox with the full local part comes first"
    );

    let strict =
        TestStore::with(MessageStoreSettings { recipient_delimiter: None, ..MessageStoreSettings::default() }).await;
    let refused = strict.message_store.accept(strict.incoming(&["bob+shop@example.org"], &mail("Hi", "."))).await;
    assert!(matches!(refused, Err(AcceptError::NoRecipients(_))));
}
