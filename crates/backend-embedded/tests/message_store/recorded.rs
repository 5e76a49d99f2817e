//! A message and its record in the account database, which is the same file.

use std::any::Any;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use mailapi_backend::{Accepted, Record, RecordError, Submission, SubmitError};
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_model::{Blob, Clock, Envelope, MessageId, MessageStatus, RecipientKind, TokenId};
use mailapi_store::{Begun, Idempotency, NewSent, Store, StoredAnswer};
use mailapi_testkit::SeededEntropy;

use super::accept::nothing_was_written;
use super::test_store::{TestStore, address, bob, mail};

/// A record in a store, which notes the steps outside of the mail server's own transaction.
struct StoredRecord {
    store: Store,
    new: NewSent,
    calls: Mutex<Vec<&'static str>>,
}

impl StoredRecord {
    async fn new(test_store: &TestStore, recipients: &[&str]) -> (Envelope, Self) {
        let store = Store::on_sqlite(test_store.sqlite.clone());
        store.migrate(test_store.clock.now()).await.unwrap();
        let message_id = MessageId::random(test_store.clock.now(), &SeededEntropy::new(7));
        let recipients: Vec<_> = recipients.iter().map(|one| address(one)).collect();
        let new = NewSent {
            message_id,
            token_id: None,
            mailbox: Some(bob()),
            from: bob(),
            to: recipients.clone(),
            subject: "Hi".to_owned(),
            recipients: recipients.iter().map(|one| (one.clone(), RecipientKind::To)).collect(),
            recipient_count: recipients.len(),
            created_at: test_store.clock.now(),
            idempotency: None,
            node: None,
            size: None,
        };
        let envelope = Envelope { message_id, sender: Some(bob()), recipients };
        (envelope, Self { store, new, calls: Mutex::default() })
    }

    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    async fn status(&self) -> Option<MessageStatus> {
        let found = self.store.sent().get(self.new.message_id).await.unwrap();
        found.map(|record| record.message.status)
    }
}

#[async_trait]
impl Record for StoredRecord {
    fn may_repeat(&self) -> bool {
        false
    }

    async fn begin(&self) -> Result<(), RecordError> {
        self.calls.lock().unwrap().push("begin");
        self.store.sent().begin(&self.new).await.unwrap();
        Ok(())
    }

    async fn submitted(&self, accepted: &Accepted) {
        self.calls.lock().unwrap().push("submitted");
        let (id, now) = (self.new.message_id, self.new.created_at);
        self.store.sent().submitted(id, &accepted.queue_id, now, &[]).await.unwrap();
    }

    fn enlist(&self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.store.sent().enlist(&self.new)?))
    }
}

fn message() -> Blob {
    Blob::from(mail("Hi", "."))
}

#[tokio::test]
async fn a_step_that_fails_leaves_neither_message_nor_record() {
    for (table, event) in [
        ("sent_messages", "INSERT"),
        ("sent_recipients", "INSERT"),
        ("drop_chunks", "INSERT"),
        ("drop_feed", "INSERT"),
        ("drop_queue_recipients", "INSERT"),
        ("drop_accepted", "INSERT"),
        ("sent_recipients", "UPDATE"),
        ("sent_messages", "UPDATE"),
    ] {
        let test_store = TestStore::new().await;
        let (envelope, record) = StoredRecord::new(&test_store, &["ann@example.org", "carl@elsewhere.example"]).await;
        let trigger = format!("CREATE TRIGGER stop AFTER {event} ON {table} BEGIN SELECT RAISE(FAIL, 'stopped'); END");
        test_store.database().execute_batch(&trigger).unwrap();
        let submitted = test_store.message_store.submit(envelope, message(), &record).await;
        assert!(matches!(submitted, Err(SubmitError::NotRecorded(_))), "{table}: {submitted:?}");
        nothing_was_written(&test_store);
        assert_eq!((record.status().await, record.calls()), (None, vec![]), "{table}");
    }
}

#[tokio::test]
async fn a_message_and_its_record_are_one_write() {
    let test_store = TestStore::new().await;
    let (envelope, record) = StoredRecord::new(&test_store, &["ann@example.org", "nobody@example.org"]).await;
    let before = test_store.sqlite.writes_begun();
    let accepted = test_store.message_store.submit(envelope.clone(), message(), &record).await.unwrap();
    assert_eq!((test_store.sqlite.writes_begun() - before, record.calls()), (1, vec![]));
    let stored = record.store.sent().get(record.new.message_id).await.unwrap().unwrap();
    assert_eq!(stored.message.status, MessageStatus::Submitted);
    assert_eq!(stored.message.queue_id, Some(accepted.queue_id));
    assert_eq!(test_store.number("SELECT count(*) FROM sent_recipients WHERE refused"), 1);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_entries"), 1);

    // The record of a message that was accepted exists, so a second one is not accepted.
    let again = test_store.message_store.submit(envelope, message(), &record).await;
    assert_eq!(again, Err(SubmitError::NotRecorded(RecordError::Exists)));
    assert_eq!(test_store.number("SELECT count(*) FROM drop_entries"), 1);
}

#[tokio::test]
async fn a_refused_message_has_a_record_and_nothing_else() {
    let small = MessageStoreSettings { max_message_bytes: 10, ..MessageStoreSettings::default() };
    let long = Blob::from(format!("Subject: Hi\r\n\r\n{}\r\n", "x".repeat(20_000)).into_bytes());
    for (settings, recipient, calls) in
        [(MessageStoreSettings::default(), "nobody@example.org", vec![]), (small, "ann@example.org", vec!["begin"])]
    {
        let test_store = TestStore::with(settings).await;
        let (envelope, record) = StoredRecord::new(&test_store, &[recipient]).await;
        let refused = test_store.message_store.submit(envelope, long.clone(), &record).await;
        assert!(matches!(refused, Err(SubmitError::NoRecipients(_) | SubmitError::Refused(_))), "{refused:?}");
        nothing_was_written(&test_store);
        assert_eq!((record.status().await, record.calls()), (Some(MessageStatus::Pending), calls));
    }
}

#[tokio::test]
async fn a_record_behind_another_handle_is_stored_first() {
    let test_store = TestStore::new().await;
    let (envelope, record) = StoredRecord::new(&test_store, &["ann@example.org"]).await;
    let other = test_store.open_again().await;
    other.submit(envelope, message(), &record).await.unwrap();
    assert_eq!(record.calls(), ["begin", "submitted"]);
    assert_eq!(record.status().await, Some(MessageStatus::Submitted));
}

#[tokio::test]
async fn a_repeat_gets_its_answer_when_that_is_durable() {
    let test_store = TestStore::new().await;
    let (envelope, mut record) = StoredRecord::new(&test_store, &["ann@example.org"]).await;
    let expires_at = test_store.clock.now().plus(Duration::from_secs(60));
    let request = Idempotency { token_id: TokenId(1), key: "invoice-17".to_owned(), body_hash: vec![1], expires_at };
    record.new.idempotency = Some(request.clone());
    test_store.message_store.submit(envelope, message(), &record).await.unwrap();

    let (database, sent) = (test_store.database(), record.store.sent());
    // A blocked writer also blocks the flush to disk.
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut seen = Box::pin(sent.seen_before(&request));
    assert!((&mut seen).now_or_never().is_none());
    let other = Idempotency { body_hash: vec![2], ..request.clone() };
    let conflict = sent.seen_before(&other).now_or_never();
    assert_eq!(conflict, Some(Ok(Some(Begun::Conflict))), "there is nothing to wait for");
    database.execute_batch("COMMIT").unwrap();
    let seen = seen.await.unwrap();
    assert!(matches!(seen, Some(Begun::Repeat(StoredAnswer::Submitted { .. }))), "{seen:?}");
}
