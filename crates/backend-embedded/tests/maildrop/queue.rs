use std::time::Duration;

use mailapi_backend::{DeliveryFeed, Mailboxes};
use mailapi_backend_embedded::accept::Incoming;
use mailapi_backend_embedded::queue::{Attempt, Notice, QueuedMessage, RecipientResult, Task};
use mailapi_model::{Clock, EnhancedCode, FeedCursor, Outcome, Reply};
use mailapi_smtp::{Notify, Ret};

use super::house::{House, ann, mail};

const LEASE: Duration = Duration::from_secs(600);

async fn claim(house: &House) -> Vec<QueuedMessage> {
    house.maildrop.claim_due(100, LEASE).await.unwrap()
}

fn delivered(position: u32) -> RecipientResult {
    let reply = Reply::new(250, EnhancedCode::new(2, 0, 0), "ok");
    RecipientResult { position, attempt: Attempt::Delivered { reply, relay: Some("mx[192.0.2.1]:25".into()) } }
}

fn bounced(position: u32) -> RecipientResult {
    let reply = Reply::new(550, EnhancedCode::new(5, 1, 1), "unknown");
    RecipientResult { position, attempt: Attempt::Bounced { reply, relay: None } }
}

async fn outcomes(house: &House) -> Vec<(String, Outcome)> {
    let batch = house.maildrop.read_after(&FeedCursor::default(), 100).await.unwrap();
    batch.events.into_iter().map(|event| (event.recipient.to_string(), event.outcome)).collect()
}

#[tokio::test]
async fn an_empty_queue_has_nothing_due() {
    let house = House::new().await;
    assert!(claim(&house).await.is_empty());
    assert_eq!(house.maildrop.next_due_at().await.unwrap(), None);
}

#[tokio::test]
async fn a_claimed_recipient_is_given_out_again_only_after_its_lease() {
    let house = House::new().await;
    house.deliver(&["carl@elsewhere.example"], &mail("Hi", ".")).await;
    let start = house.clock.now();
    assert_eq!(house.maildrop.next_due_at().await.unwrap(), Some(start));
    assert_eq!(claim(&house).await.len(), 1);
    assert!(claim(&house).await.is_empty());
    assert_eq!(house.maildrop.next_due_at().await.unwrap(), Some(start.plus(LEASE)));
    house.advance(600);
    assert_eq!(claim(&house).await.len(), 1);
    house.maildrop.end_leases().await.unwrap();
    assert_eq!(claim(&house).await.len(), 1);
}

#[tokio::test]
async fn what_goes_to_the_next_server_is_what_was_handed_over() {
    let house = House::new().await;
    let message = mail("Hi", "Hello.");
    let mut incoming = house.incoming(&["carl@elsewhere.example", "ann@example.org"], &message);
    incoming.recipients[0].notify = Some(Notify { success: false, failure: true, delay: true });
    incoming.recipients[0].orcpt = Some("rfc822;c@x.example".to_owned());
    incoming.ret = Some(Ret::Headers);
    incoming.envid = Some("E1".to_owned());
    let taken = house.maildrop.accept(incoming).await.unwrap();
    let [queued] = &claim(&house).await[..] else { panic!() };
    assert_eq!(queued.queue_id, taken.queue_id);
    assert_eq!((queued.ret, queued.envid.as_deref()), (Some(Ret::Headers), Some("E1")));
    let [recipient] = &queued.recipients[..] else { panic!() };
    assert_eq!(recipient.address.as_str(), "carl@elsewhere.example");
    assert_eq!(recipient.notify.unwrap().to_string(), "FAILURE,DELAY");
    assert_eq!((recipient.orcpt.as_deref(), recipient.task), (Some("rfc822;c@x.example"), Task::Deliver));
    let layout = queued.layout;
    let octets = house.maildrop.load_range(layout.content, layout.as_handed_over()).await.unwrap();
    assert_eq!(octets, message.as_bytes());
}

#[tokio::test]
async fn recipients_end_one_by_one_and_the_last_takes_the_message_with_it() {
    let house = House::new().await;
    house.deliver(&["carl@elsewhere.example", "dora@elsewhere.example"], &mail("Hi", ".")).await;
    let [queued] = &claim(&house).await[..] else { panic!() };
    let later = house.clock.now().plus(Duration::from_secs(60));
    let deferred = Attempt::Deferred {
        reply: Reply::new(451, EnhancedCode::new(4, 7, 1), "greylisted"),
        relay: None,
        next_attempt_at: later,
        delay_notified: true,
    };
    let results = vec![delivered(0), RecipientResult { position: 1, attempt: deferred }];
    house.maildrop.record(queued.clone(), results, Vec::new()).await.unwrap();
    assert!(claim(&house).await.is_empty());
    assert_eq!(house.maildrop.next_due_at().await.unwrap(), Some(later));
    house.advance(60);

    let [again] = &claim(&house).await[..] else { panic!() };
    let [dora] = &again.recipients[..] else { panic!() };
    assert_eq!((dora.position, dora.attempts, dora.delay_notified), (1, 1, true));
    assert_eq!(dora.last_reply.as_ref().unwrap().to_string(), "451 4.7.1 greylisted");
    house.maildrop.record(again.clone(), vec![bounced(1)], Vec::new()).await.unwrap();
    assert_eq!(house.number("SELECT count(*) FROM drop_queue"), 0);
    house.maildrop.keep_house_until_done().await.unwrap();
    assert_eq!(house.number("SELECT count(*) FROM drop_messages"), 0);
    let seen: Vec<_> = outcomes(&house).await.into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(seen, [Outcome::Sent, Outcome::Deferred, Outcome::Bounced]);
}

#[tokio::test]
async fn a_result_that_comes_twice_is_told_once() {
    let house = House::new().await;
    house.deliver(&["carl@elsewhere.example", "dora@elsewhere.example"], &mail("Hi", ".")).await;
    let [queued] = &claim(&house).await[..] else { panic!() };
    for _ in 0..2 {
        house.maildrop.record(queued.clone(), vec![delivered(0)], Vec::new()).await.unwrap();
    }
    assert_eq!(outcomes(&house).await.len(), 1);
}

#[tokio::test]
async fn a_bounce_and_what_it_reports_are_one_transaction() {
    let house = House::new().await;
    let mut incoming = house.incoming(&["carl@elsewhere.example"], &mail("Hi", "."));
    incoming.sender = Some(ann());
    house.maildrop.accept(incoming).await.unwrap();
    let [queued] = &claim(&house).await[..] else { panic!() };
    let mut notice = house.incoming(&["ann@example.org"], &mail("Undelivered", "Sorry."));
    notice.sender = None;
    let notice = Notice { mail: house.maildrop.prepare(notice).await.unwrap(), of_delay: false };

    let stop = "CREATE TRIGGER stop AFTER INSERT ON drop_entries BEGIN SELECT RAISE(FAIL, 'stopped'); END";
    house.database().execute_batch(stop).unwrap();
    assert!(house.maildrop.record(queued.clone(), vec![bounced(0)], vec![notice.clone()]).await.is_err());
    assert!(outcomes(&house).await.is_empty());
    assert_eq!(house.number("SELECT count(*) FROM drop_queue_recipients"), 1);

    house.database().execute_batch("DROP TRIGGER stop").unwrap();
    house.maildrop.record(queued.clone(), vec![bounced(0)], vec![notice]).await.unwrap();
    assert_eq!(house.maildrop.quota(&ann()).await.unwrap().messages, 1);
    assert_eq!(house.number("SELECT count(*) FROM drop_queue_recipients"), 0);
    assert_eq!(outcomes(&house).await.len(), 2);
}

#[tokio::test]
async fn a_notice_that_nobody_takes_does_not_hold_up_the_result() {
    let house = House::new().await;
    house.deliver(&["carl@elsewhere.example"], &mail("Hi", ".")).await;
    let [queued] = &claim(&house).await[..] else { panic!() };
    let mut notice = house.incoming(&["gone@example.org"], &mail("Undelivered", "Sorry."));
    notice.sender = None;
    let notice = Notice { mail: house.maildrop.prepare(notice).await.unwrap(), of_delay: false };
    house.maildrop.record(queued.clone(), vec![bounced(0)], vec![notice]).await.unwrap();
    assert_eq!(house.number("SELECT count(*) FROM drop_queue"), 0);
}

#[tokio::test]
async fn a_sender_that_wants_to_hear_of_a_local_success_is_remembered() {
    let house = House::new().await;
    let wants = Some(Notify { success: true, failure: true, delay: false });
    let mut silent: Incoming = house.incoming(&["ann@example.org"], &mail("Hi", "."));
    silent.sender = None;
    silent.recipients[0].notify = wants;
    house.maildrop.accept(silent).await.unwrap();
    assert!(claim(&house).await.is_empty());

    let mut incoming = house.incoming(&["ann@example.org"], &mail("Hi", "."));
    incoming.recipients[0].notify = wants;
    house.maildrop.accept(incoming).await.unwrap();
    let [queued] = &claim(&house).await[..] else { panic!() };
    assert_eq!(queued.recipients[0].task, Task::TellOfSuccess);
    let told = RecipientResult { position: 0, attempt: Attempt::Told };
    house.maildrop.record(queued.clone(), vec![told], Vec::new()).await.unwrap();
    assert_eq!(house.number("SELECT count(*) FROM drop_queue"), 0);
    assert_eq!(outcomes(&house).await.len(), 2);
}
