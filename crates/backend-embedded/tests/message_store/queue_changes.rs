//! The queue as the operator lists and changes it.

use std::time::Duration;

use mailapi_backend::{DeliveryFeed, Queue, QueueChange, QueueEntry, QueueError, QueueFilter};
use mailapi_backend_embedded::queue::{Attempt, RecipientResult};
use mailapi_model::{Clock, EnhancedCode, FeedCursor, Listed, Page, QueueId, QueueState, Reply};
use mailapi_smtp::Notify;

use super::test_store::{TestStore, mail};

const LEASE: Duration = Duration::from_secs(600);

/// Queues a message and returns its queue id.
async fn queued(test_store: &TestStore, recipients: &[&str]) -> QueueId {
    test_store.message_store.accept(test_store.incoming(recipients, &mail("Hi", "."))).await.unwrap().queue_id
}

async fn list(test_store: &TestStore, filter: &QueueFilter, page: Page) -> Listed<QueueEntry> {
    test_store.message_store.list_queue(filter, page).await
}

/// [`Queue::list`], whose name [`mailapi_backend::Mailboxes`] has too.
trait ListQueue {
    async fn list_queue(&self, filter: &QueueFilter, page: Page) -> Listed<QueueEntry>;
}

impl<T: Queue> ListQueue for T {
    async fn list_queue(&self, filter: &QueueFilter, page: Page) -> Listed<QueueEntry> {
        self.list(filter, page).await.unwrap()
    }
}

async fn found(test_store: &TestStore, filter: &QueueFilter) -> Vec<QueueId> {
    let listed = list(test_store, filter, Page::default()).await;
    assert_eq!(listed.total, listed.items.len() as u64);
    listed.items.into_iter().map(|entry| entry.queue_id).collect()
}

/// Claims the next message, and defers its recipient at this position.
async fn defer_one(test_store: &TestStore, position: u32) {
    let [queued] = &test_store.message_store.claim_due(100, LEASE).await.unwrap()[..] else { panic!() };
    let attempt = Attempt::Deferred {
        reply: Reply::new(451, EnhancedCode::new(4, 7, 1), "x".repeat(600)),
        relay: None,
        next_attempt_at: test_store.clock.now().plus(Duration::from_secs(60)),
        delay_notified: false,
    };
    let results = vec![RecipientResult { position, attempt, is_answered: true }];
    test_store.message_store.record(queued.clone(), results, Vec::new()).await.unwrap();
}

#[tokio::test]
async fn an_empty_queue_lists_nothing() {
    let test_store = TestStore::new().await;
    assert_eq!(list(&test_store, &QueueFilter::default(), Page::default()).await, Listed { total: 0, items: vec![] });
}

#[tokio::test]
async fn an_entry_shows_each_recipient() {
    let test_store = TestStore::new().await;
    let message = mail("Hi", ".");
    let mut incoming =
        test_store.incoming(&["carl@elsewhere.example", "dora@elsewhere.example", "ann@example.org"], &message);
    incoming.recipients[2].notify = Some(Notify { success: true, failure: true, delay: false });
    let id = test_store.message_store.accept(incoming).await.unwrap().queue_id;
    defer_one(&test_store, 0).await;
    let entry = test_store.message_store.get(&id).await.unwrap();
    assert_eq!((entry.size, entry.sender.as_str()), (message.len() as u64, "eve@elsewhere.example"));
    assert_eq!((entry.queued_at, entry.recipient_count), (test_store.clock.now(), 3));
    assert!(entry.expires_at.unwrap() > entry.queued_at);
    let states: Vec<_> = entry.recipients.iter().map(|one| (one.email.as_str(), one.state, one.attempts)).collect();
    let expected = [
        ("carl@elsewhere.example", QueueState::Deferred, Some(1)),
        ("dora@elsewhere.example", QueueState::Active, Some(0)),
        ("ann@example.org", QueueState::Sent, Some(0)),
    ];
    assert_eq!(states, expected);
    let [carl, dora, _] = &entry.recipients[..] else { panic!() };
    assert_eq!(carl.next_attempt_at, Some(test_store.clock.now().plus(Duration::from_secs(60))));
    assert_eq!(carl.last_reply.as_ref().unwrap().chars().count(), QueueEntry::REPLY_CHARACTERS);
    assert_eq!((dora.next_attempt_at, dora.last_reply.as_ref()), (None, None));
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let test_store = TestStore::new().await;
    let deferred = queued(&test_store, &["carl@one.example", "dora@two.example"]).await;
    defer_one(&test_store, 0).await;
    test_store.message_store.end_leases().await.unwrap();
    let held = queued(&test_store, &["carl@sub.one.example"]).await;
    test_store.message_store.change(&held, QueueChange::Hold).await.unwrap();
    let none = QueueFilter::default;
    let domain = |name: &str| QueueFilter { domain: Some(name.parse().unwrap()), ..none() };
    let recipient = |text: &str| QueueFilter { recipient: Some(text.parse().unwrap()), ..none() };
    let state = |state| QueueFilter { state: Some(state), ..none() };
    let both = [deferred.clone(), held.clone()];
    for (filter, expected) in [
        (none(), &both[..]),
        (domain("elsewhere.example"), &both),
        (domain("ONE.example"), &both[..1]),
        (domain("ne.example"), &[]),
        (recipient("carl@one.example"), &both[..1]),
        (recipient("dora@one.example"), &[]),
        (state(QueueState::Held), &both[1..]),
        (state(QueueState::Queued), &both[..1]),
        (QueueFilter { state: Some(QueueState::Queued), ..recipient("carl@one.example") }, &[]),
        (QueueFilter { state: Some(QueueState::Deferred), ..recipient("carl@one.example") }, &both[..1]),
        (QueueFilter { domain: Some("one.example".parse().unwrap()), ..recipient("dora@two.example") }, &[]),
    ] {
        assert_eq!(found(&test_store, &filter).await, expected, "{filter:?}");
    }
}

#[tokio::test]
async fn pages_do_not_overlap_and_long_lists_are_cut() {
    let test_store = TestStore::new().await;
    let many: Vec<String> = (0..60).map(|number| format!("r{number}@elsewhere.example")).collect();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(queued(&test_store, &many.iter().map(String::as_str).collect::<Vec<_>>()).await);
    }
    let page = async |limit, offset| {
        let listed = list(&test_store, &QueueFilter::default(), Page::new(limit, offset)).await;
        assert_eq!(listed.total, 3);
        listed.items.into_iter().map(|entry| entry.queue_id).collect::<Vec<_>>()
    };
    assert_eq!((page(2, 0).await, page(2, 2).await, page(2, 9).await), (ids[..2].to_vec(), ids[2..].to_vec(), vec![]));
    let wanted = QueueFilter { recipient: Some("R59@elsewhere.example".parse().unwrap()), ..QueueFilter::default() };
    for entry in list(&test_store, &wanted, Page::default()).await.items {
        assert_eq!((entry.recipient_count, entry.recipients.len()), (60, QueueEntry::LISTED_RECIPIENTS));
        assert_eq!(entry.recipients[0].email, "r59@elsewhere.example");
    }
    assert_eq!(test_store.message_store.get(&ids[0]).await.unwrap().recipients.len(), 60);
}

#[tokio::test]
async fn attempts_that_the_operator_starts_do_not_count() {
    let test_store = TestStore::new().await;
    let id = queued(&test_store, &["carl@elsewhere.example"]).await;
    let attempts = async || test_store.message_store.get(&id).await.unwrap().recipients[0].attempts;
    let change = async |change| test_store.message_store.change(&id, change).await.unwrap();
    change(QueueChange::Retry).await;
    assert_eq!(attempts().await, Some(0));
    defer_one(&test_store, 0).await;
    assert_eq!(attempts().await, Some(1), "the first attempt counts in any case");
    for _ in 0..2 {
        test_store.advance(1);
        change(QueueChange::Retry).await;
        change(QueueChange::Retry).await;
        defer_one(&test_store, 0).await;
        change(QueueChange::Hold).await;
        change(QueueChange::Release).await;
        defer_one(&test_store, 0).await;
        assert_eq!(attempts().await, Some(1));
    }
    test_store.advance(60);
    defer_one(&test_store, 0).await;
    assert_eq!(attempts().await, Some(2), "scheduled attempts count");
    // A stop between the request and the attempt changes nothing.
    change(QueueChange::Retry).await;
    test_store.message_store.end_leases().await.unwrap();
    defer_one(&test_store, 0).await;
    assert_eq!(attempts().await, Some(2));
}

#[tokio::test]
async fn a_cancellation_is_one_transaction() {
    let test_store = TestStore::new().await;
    let id = queued(&test_store, &["carl@elsewhere.example", "dora@elsewhere.example"]).await;
    let stop = "CREATE TRIGGER stop BEFORE DELETE ON drop_queue BEGIN SELECT RAISE(FAIL, 'stopped'); END";
    test_store.database().execute_batch(stop).unwrap();
    let failed = test_store.message_store.change(&id, QueueChange::Cancel).await;
    assert!(matches!(failed, Err(QueueError::Unavailable(_))), "{failed:?}");
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue_recipients"), 2);
    let events = async || test_store.message_store.read_after(&FeedCursor::default(), 9).await.unwrap().events;
    assert_eq!(events().await, []);
    test_store.database().execute_batch("DROP TRIGGER stop").unwrap();
    test_store.message_store.change(&id, QueueChange::Cancel).await.unwrap();
    assert_eq!(events().await.len(), 2);
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 0);
}

#[tokio::test]
async fn a_hold_by_another_process_survives_the_next_start() {
    let test_store = TestStore::new().await;
    let id = queued(&test_store, &["carl@elsewhere.example"]).await;
    test_store.open_again().await.change(&id, QueueChange::Hold).await.unwrap();
    test_store.message_store.end_leases().await.unwrap();
    test_store.advance(3600);
    assert!(test_store.message_store.claim_due(100, LEASE).await.unwrap().is_empty());
    test_store.open_again().await.change(&id, QueueChange::Release).await.unwrap();
    assert_eq!(test_store.message_store.claim_due(100, LEASE).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_attempt_that_fails_does_not_end_a_hold() {
    let test_store = TestStore::new().await;
    let id = queued(&test_store, &["carl@elsewhere.example"]).await;
    let [claimed] = &test_store.message_store.claim_due(100, LEASE).await.unwrap()[..] else { panic!() };
    test_store.message_store.change(&id, QueueChange::Hold).await.unwrap();
    let attempt = Attempt::Deferred {
        reply: Reply::new(451, EnhancedCode::new(4, 7, 1), "greylisted"),
        relay: None,
        next_attempt_at: test_store.clock.now(),
        delay_notified: false,
    };
    let results = vec![RecipientResult { position: 0, attempt, is_answered: true }];
    test_store.message_store.record(claimed.clone(), results, Vec::new()).await.unwrap();
    test_store.advance(3600);
    assert!(test_store.message_store.claim_due(100, LEASE).await.unwrap().is_empty());
    let recipients = test_store.message_store.get(&id).await.unwrap().recipients;
    assert_eq!((recipients[0].state, recipients[0].attempts), (QueueState::Held, Some(1)));
}
