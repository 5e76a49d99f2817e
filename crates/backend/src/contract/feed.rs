//! The delivery feed.

use std::time::Duration;

use mailapi_model::{Evidence, FeedCursor, Outcome};

use super::Fixture;
use super::story::{address, end_of_feed, events_of, feed_after, mailbox, send};

/// How long a reader waits to be woken, at most.
const PATIENCE: Duration = Duration::from_secs(30);

/// The feed reports one event for the accepted recipient; a recipient rejected at submission is not reported
/// again.
pub async fn a_delivery_is_reported_once(fixture: &dyn Fixture) {
    let (bob, unknown) = (mailbox(fixture, "bob").await, address(fixture, "nobody"));
    let start = end_of_feed(fixture).await;
    let sent = send(fixture, &[&bob, &unknown]).await;
    let queue_id = sent.answer.expect("the message is accepted").queue_id;
    let events = events_of(fixture, &start, sent.id).await;
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    assert_eq!((&event.recipient, event.outcome, event.evidence), (&bob, Outcome::Sent, Evidence::MailServer));
    assert_eq!(event.sender, Some(address(fixture, "sender")));
    assert_eq!(event.queue_id, queue_id);
    assert_eq!(event.dsn.map(|dsn| dsn.class), Some(2));
}

/// A reader that lost its cursor reads the same events again.
pub async fn reading_again_reports_the_same(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let start = end_of_feed(fixture).await;
    let sent = send(fixture, &[&bob]).await;
    let first = events_of(fixture, &start, sent.id).await;
    assert_eq!(first.len(), 1);
    assert_eq!(events_of(fixture, &start, sent.id).await, first);
    let (_, end) = feed_after(fixture, &start).await;
    assert_eq!(events_of(fixture, &end, sent.id).await, []);
}

/// The batch size makes no difference.
pub async fn a_feed_read_event_by_event_is_the_same_feed(fixture: &dyn Fixture) {
    let (bob, eve) = (mailbox(fixture, "bob").await, mailbox(fixture, "eve").await);
    let start = end_of_feed(fixture).await;
    let sent = [send(fixture, &[&bob, &eve]).await.id, send(fixture, &[&bob]).await.id];
    let is_sent = |event: &mailapi_model::DeliveryEvent| event.message_id.is_some_and(|id| sent.contains(&id));
    let (mut at_once, _) = feed_after(fixture, &start).await;
    at_once.retain(is_sent);
    assert_eq!(at_once.len(), 3);
    let (mut singly, mut cursor, mut more) = (Vec::new(), start, true);
    while more {
        let batch = fixture.backend().delivery_feed.read_after(&cursor, 1).await.unwrap();
        assert!(batch.events.len() <= 1);
        singly.extend(batch.events.into_iter().filter(is_sent));
        (cursor, more) = (batch.cursor, batch.more);
    }
    assert_eq!(singly, at_once);
}

/// Forgetting loses no later event, and may be repeated.
pub async fn forgetting_keeps_what_came_later(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let feed = &fixture.backend().delivery_feed;
    feed.forget_until(&FeedCursor::default()).await.unwrap();
    let first = send(fixture, &[&bob]).await;
    let read = end_of_feed(fixture).await;
    let second = send(fixture, &[&bob]).await;
    feed.forget_until(&read).await.unwrap();
    feed.forget_until(&read).await.unwrap();
    assert_eq!(events_of(fixture, &read, second.id).await.len(), 1);
    assert_eq!(events_of(fixture, &read, first.id).await, []);
}

/// A waiting reader is woken by a delivery.
pub async fn a_waiting_reader_is_woken(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let start = end_of_feed(fixture).await;
    let woken = tokio::time::timeout(PATIENCE, fixture.backend().delivery_feed.changed());
    let recipients = [&bob];
    let (woken, sent) = tokio::join!(woken, send(fixture, &recipients));
    assert!(woken.is_ok(), "the reader still waits");
    assert_eq!(events_of(fixture, &start, sent.id).await.len(), 1);
}
