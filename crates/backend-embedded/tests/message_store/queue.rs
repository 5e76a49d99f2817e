use std::time::Duration;

use mailapi_backend::{Awaited, DeliveryFeed, Mailboxes, QueueSize};
use mailapi_backend_embedded::accept::Incoming;
use mailapi_backend_embedded::queue::{Attempt, Notice, QueuedMessage, RecipientResult, Task};
use mailapi_model::{Clock, EnhancedCode, FeedCursor, MessageId, Outcome, Reply};
use mailapi_smtp::{Notify, Ret};

use super::test_store::{TestStore, ann, mail};

const LEASE: Duration = Duration::from_secs(600);

async fn claim(test_store: &TestStore) -> Vec<QueuedMessage> {
    test_store.message_store.claim_due(100, LEASE).await.unwrap()
}

fn delivered(position: u32) -> RecipientResult {
    let reply = Reply::new(250, EnhancedCode::new(2, 0, 0), "ok");
    RecipientResult {
        position,
        attempt: Attempt::Delivered { reply, relay: Some("mx[192.0.2.1]:25".into()) },
        is_answered: true,
    }
}

fn bounced(position: u32) -> RecipientResult {
    let reply = Reply::new(550, EnhancedCode::new(5, 1, 1), "unknown");
    RecipientResult { position, attempt: Attempt::Bounced { reply, relay: None }, is_answered: true }
}

async fn outcomes(test_store: &TestStore) -> Vec<(String, Outcome)> {
    let batch = test_store.message_store.read_after(&FeedCursor::default(), 100).await.unwrap();
    batch.events.into_iter().map(|event| (event.recipient.to_string(), event.outcome)).collect()
}

#[tokio::test]
async fn an_empty_queue_has_nothing_due() {
    let test_store = TestStore::new().await;
    assert!(claim(&test_store).await.is_empty());
    assert_eq!(test_store.message_store.next_due_at().await.unwrap(), None);
}

#[tokio::test]
async fn a_claimed_recipient_is_given_out_again_only_after_its_lease() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["carl@elsewhere.example"], &mail("Hi", ".")).await;
    let start = test_store.clock.now();
    assert_eq!(test_store.message_store.next_due_at().await.unwrap(), Some(start));
    assert_eq!(claim(&test_store).await.len(), 1);
    assert!(claim(&test_store).await.is_empty());
    assert_eq!(test_store.message_store.next_due_at().await.unwrap(), Some(start.plus(LEASE)));
    test_store.advance(600);
    assert_eq!(claim(&test_store).await.len(), 1);
    test_store.message_store.end_leases().await.unwrap();
    assert_eq!(claim(&test_store).await.len(), 1);
}

#[tokio::test]
async fn the_queue_keeps_the_message_and_its_envelope_options() {
    let test_store = TestStore::new().await;
    let message = mail("Hi", "Hello.");
    let mut incoming = test_store.incoming(&["carl@elsewhere.example", "ann@example.org"], &message);
    incoming.recipients[0].notify = Some(Notify { success: false, failure: true, delay: true });
    incoming.recipients[0].orcpt = Some("rfc822;c@x.example".to_owned());
    incoming.ret = Some(Ret::Headers);
    incoming.envid = Some("E1".to_owned());
    let taken = test_store.message_store.accept(incoming).await.unwrap();
    let [queued] = &claim(&test_store).await[..] else { panic!() };
    assert_eq!(queued.queue_id, taken.queue_id);
    assert_eq!((queued.ret, queued.envid.as_deref()), (Some(Ret::Headers), Some("E1")));
    let [recipient] = &queued.recipients[..] else { panic!() };
    assert_eq!(recipient.address.as_str(), "carl@elsewhere.example");
    assert_eq!(recipient.notify.unwrap().to_string(), "FAILURE,DELAY");
    assert_eq!((recipient.orcpt.as_deref(), recipient.task), (Some("rfc822;c@x.example"), Task::Deliver));
    let layout = &queued.layout;
    let bytes = test_store.message_store.load_range(layout.content, layout.as_submitted()).await.unwrap();
    assert_eq!(bytes, message.as_bytes());
}

#[tokio::test]
async fn recipients_end_one_by_one_and_the_last_removes_the_message() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["carl@elsewhere.example", "dora@elsewhere.example"], &mail("Hi", ".")).await;
    let [queued] = &claim(&test_store).await[..] else { panic!() };
    let later = test_store.clock.now().plus(Duration::from_secs(60));
    let deferred = Attempt::Deferred {
        reply: Reply::new(451, EnhancedCode::new(4, 7, 1), "greylisted"),
        relay: None,
        next_attempt_at: later,
        delay_notified: true,
    };
    let results = vec![delivered(0), RecipientResult { position: 1, attempt: deferred, is_answered: true }];
    test_store.message_store.record(queued.clone(), results, Vec::new()).await.unwrap();
    assert!(claim(&test_store).await.is_empty());
    assert_eq!(test_store.message_store.next_due_at().await.unwrap(), Some(later));
    let reports = test_store.message_store.read_after(&FeedCursor::default(), 10).await.unwrap().events;
    let next: Vec<_> = reports.iter().map(|report| report.next_attempt_at).collect();
    assert_eq!(next, [None, Some(later)], "delivered, and deferred");
    test_store.advance(60);

    let [again] = &claim(&test_store).await[..] else { panic!() };
    let [dora] = &again.recipients[..] else { panic!() };
    assert_eq!((dora.position, dora.attempts, dora.delay_notified), (1, 1, true));
    assert_eq!(dora.last_reply.as_ref().unwrap().to_string(), "451 4.7.1 greylisted");
    test_store.message_store.record(again.clone(), vec![bounced(1)], Vec::new()).await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue"), 0);
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 0);
    let seen: Vec<_> = outcomes(&test_store).await.into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(seen, [Outcome::Sent, Outcome::Deferred, Outcome::Bounced]);
}

#[tokio::test]
async fn a_repeated_result_is_one_event() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["carl@elsewhere.example", "dora@elsewhere.example"], &mail("Hi", ".")).await;
    let [queued] = &claim(&test_store).await[..] else { panic!() };
    for _ in 0..2 {
        test_store.message_store.record(queued.clone(), vec![delivered(0)], Vec::new()).await.unwrap();
    }
    assert_eq!(outcomes(&test_store).await.len(), 1);
}

#[tokio::test]
async fn a_bounce_and_what_it_reports_are_one_transaction() {
    let test_store = TestStore::new().await;
    let mut incoming = test_store.incoming(&["carl@elsewhere.example"], &mail("Hi", "."));
    incoming.sender = Some(ann());
    test_store.message_store.accept(incoming).await.unwrap();
    let [queued] = &claim(&test_store).await[..] else { panic!() };
    let mut notice = test_store.incoming(&["ann@example.org"], &mail("Undelivered", "Sorry."));
    notice.sender = None;
    let notice =
        Notice { mail: test_store.message_store.prepare(notice).await.unwrap(), of_delay: false, of_alias: None };

    let stop = "CREATE TRIGGER stop AFTER INSERT ON drop_chunks BEGIN SELECT RAISE(FAIL, 'stopped'); END";
    test_store.database().execute_batch(stop).unwrap();
    assert!(test_store.message_store.record(queued.clone(), vec![bounced(0)], vec![notice.clone()]).await.is_err());
    assert!(outcomes(&test_store).await.is_empty());
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue_recipients"), 1);

    test_store.database().execute_batch("DROP TRIGGER stop").unwrap();
    test_store.message_store.record(queued.clone(), vec![bounced(0)], vec![notice]).await.unwrap();
    assert_eq!(test_store.message_store.quota(&ann()).await.unwrap().messages, 1);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue_recipients"), 0);
    assert_eq!(outcomes(&test_store).await.len(), 2);
}

#[tokio::test]
async fn an_undeliverable_notice_does_not_block_the_result() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["carl@elsewhere.example"], &mail("Hi", ".")).await;
    let [queued] = &claim(&test_store).await[..] else { panic!() };
    let mut notice = test_store.incoming(&["gone@example.org"], &mail("Undelivered", "Sorry."));
    notice.sender = None;
    let notice =
        Notice { mail: test_store.message_store.prepare(notice).await.unwrap(), of_delay: false, of_alias: None };
    test_store.message_store.record(queued.clone(), vec![bounced(0)], vec![notice]).await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue"), 0);
}

#[tokio::test]
async fn a_sender_that_wants_to_hear_of_a_local_success_is_remembered() {
    let test_store = TestStore::new().await;
    let wants = Some(Notify { success: true, failure: true, delay: false });
    let mut silent: Incoming = test_store.incoming(&["ann@example.org"], &mail("Hi", "."));
    silent.sender = None;
    silent.recipients[0].notify = wants;
    test_store.message_store.accept(silent).await.unwrap();
    assert!(claim(&test_store).await.is_empty());

    let mut incoming = test_store.incoming(&["ann@example.org"], &mail("Hi", "."));
    incoming.recipients[0].notify = wants;
    test_store.message_store.accept(incoming).await.unwrap();
    let [queued] = &claim(&test_store).await[..] else { panic!() };
    assert_eq!(queued.recipients[0].task, Task::NotifySuccess);
    let notified = RecipientResult { position: 0, attempt: Attempt::Notified, is_answered: true };
    test_store.message_store.record(queued.clone(), vec![notified], Vec::new()).await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_queue"), 0);
    assert_eq!(outcomes(&test_store).await.len(), 2);
}

#[tokio::test]
async fn a_recipient_is_awaited_until_its_report_is_read() {
    let test_store = TestStore::new().await;
    let message_id: MessageId = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap();
    let mut incoming = test_store.incoming(&["carl@elsewhere.example", "ann@example.org"], &mail("Hi", "."));
    incoming.message_id = Some(message_id);
    let queue_id = test_store.message_store.accept(incoming).await.unwrap().queue_id;
    let awaited = |recipient: &str, by_this_node: bool| Awaited {
        message_id,
        queue_id: Some(queue_id.clone()),
        recipient: recipient.parse().unwrap(),
        by_this_node,
    };
    let asked = [awaited("carl@elsewhere.example", true), awaited("ann@example.org", true)];
    let are_awaited = async || test_store.message_store.are_awaited(&asked).await.unwrap();
    assert_eq!(are_awaited().await, [true, true], "one is queued, the report about the other is unread");
    let batch = test_store.message_store.read_after(&FeedCursor::default(), 100).await.unwrap();
    test_store.message_store.forget_until(&batch.cursor).await.unwrap();
    assert_eq!(are_awaited().await, [true, false]);

    let queued = claim(&test_store).await.remove(0);
    test_store.message_store.record(queued, vec![bounced(0)], Vec::new()).await.unwrap();
    assert_eq!(are_awaited().await, [true, false], "its report is unread");
    let batch = test_store.message_store.read_after(&batch.cursor, 100).await.unwrap();
    test_store.message_store.forget_until(&batch.cursor).await.unwrap();
    assert_eq!(are_awaited().await, [false, false]);
    let elsewhere = [awaited("ann@example.org", false)];
    assert_eq!(test_store.message_store.are_awaited(&elsewhere).await, Ok(vec![true]), "another node has its own");
}

#[tokio::test]
async fn the_queue_is_counted_up_to_a_limit() {
    let test_store = TestStore::new().await;
    let size = async |limit| test_store.message_store.queue(limit).await.unwrap().unwrap();
    assert_eq!(size(10).await, QueueSize::default());
    let start = test_store.clock.now();
    for subject in ["one", "two", "three"] {
        test_store.deliver(&["carl@elsewhere.example"], &mail(subject, ".")).await;
        test_store.advance(1);
    }
    assert_eq!(size(10).await, QueueSize { queued: 3, deferred: 0, oldest: Some(start) });
    assert_eq!(size(2).await.queued, 2);
    test_store.database().execute("UPDATE drop_queue_recipients SET attempts = 1 WHERE queue = 1", []).unwrap();
    assert_eq!(size(10).await, QueueSize { queued: 2, deferred: 1, oldest: Some(start) });
}
