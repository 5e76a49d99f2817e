//! The queue, as the operator sees and changes it. No server accepts mail for the remote domains of the stories.

use std::time::Duration;

use mailapi_model::{EmailAddress, FeedCursor, MessageId, Outcome, Page, QueueId, QueueState};

use super::Fixture;
use super::story::{address, end_of_feed, events_of, mailbox, send};
use crate::{QueueChange, QueueEntry, QueueError, QueueFilter};

/// How long the report of a change may take, at most.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a change is repeated while a delivery attempt is in progress.
const TRIES: usize = 200;

/// An id without a message changes nothing, whatever it may mean to the mail server.
pub async fn an_unknown_message_cannot_be_changed(fixture: &dyn Fixture) {
    let queue = &fixture.backend().queue;
    let waiting = waiting(fixture).await;
    for id in ["4jXsKf6thLz1SRkq", "ALL", "-", "", "../deferred"] {
        let id = QueueId(id.to_owned());
        assert_eq!(queue.get(&id).await, Err(QueueError::NotFound), "{id}");
        for change in [QueueChange::Retry, QueueChange::Hold, QueueChange::Release, QueueChange::Cancel] {
            assert_eq!(queue.change(&id, change).await, Err(QueueError::NotFound), "{id}");
        }
    }
    assert_eq!(queue.get(&waiting.queue_id).await.map(|entry| entry.queue_id), Ok(waiting.queue_id));
}

/// A cancelled message is gone, and its recipients are bounced once.
pub async fn waiting_mail_is_listed_until_it_is_cancelled(fixture: &dyn Fixture) {
    let start = end_of_feed(fixture).await;
    let Waiting { id, queue_id, recipients } = waiting(fixture).await;
    let local = mailbox(fixture, "bob").await;
    let other = send(fixture, &[&local]).await.answer.expect("the message is accepted").queue_id;
    gone(fixture, &other).await;
    for filter in [
        QueueFilter { recipient: Some(recipients[0].clone()), ..QueueFilter::default() },
        QueueFilter { domain: Some(recipients[1].domain()), ..QueueFilter::default() },
        QueueFilter { domain: Some(fixture.domain().clone()), ..QueueFilter::default() },
    ] {
        let [entry] = &listed(fixture, &filter).await[..] else { panic!("not one message for {filter:?}") };
        assert_eq!((&entry.queue_id, entry.recipient_count), (&queue_id, 2), "{filter:?}");
        assert_eq!(entry.sender, address(fixture, "sender").as_str());
        assert!(entry.size > 0);
        let mut shown: Vec<_> = entry.recipients.iter().map(|one| one.email.clone()).collect();
        shown.sort();
        assert_eq!(shown, recipients.each_ref().map(|recipient| recipient.as_str().to_owned()));
    }
    assert_ne!(other, queue_id);

    change(fixture, &queue_id, QueueChange::Cancel).await;
    assert_eq!(fixture.backend().queue.get(&queue_id).await, Err(QueueError::NotFound));
    let again = fixture.backend().queue.change(&queue_id, QueueChange::Cancel).await;
    assert_eq!(again, Err(QueueError::NotFound));
    assert_eq!(bounced(fixture, &start, id, 2).await, recipients);
}

/// A message on hold is neither attempted nor retried. Both changes may be repeated.
pub async fn mail_on_hold_waits_for_its_release(fixture: &dyn Fixture) {
    let queue = &fixture.backend().queue;
    let Waiting { queue_id, recipients, .. } = waiting(fixture).await;
    let held =
        QueueFilter { recipient: Some(recipients[0].clone()), state: Some(QueueState::Held), ..QueueFilter::default() };
    assert_eq!(listed(fixture, &held).await, []);
    for _ in 0..2 {
        change(fixture, &queue_id, QueueChange::Hold).await;
        let [entry] = &listed(fixture, &held).await[..] else { panic!("not one message") };
        assert!(entry.recipients.iter().all(|one| one.state == QueueState::Held && one.next_attempt_at.is_none()));
    }
    assert_eq!(queue.change(&queue_id, QueueChange::Retry).await, Err(QueueError::Held));
    for _ in 0..2 {
        change(fixture, &queue_id, QueueChange::Release).await;
        assert_eq!(listed(fixture, &held).await, []);
    }
    assert_eq!(queue.change(&queue_id, QueueChange::Retry).await, Ok(()));
    change(fixture, &queue_id, QueueChange::Cancel).await;
}

/// A message that waits in the queue.
struct Waiting {
    id: MessageId,
    queue_id: QueueId,
    recipients: [EmailAddress; 2],
}

/// Submits a message to two recipients of a domain of this fixture that no server accepts mail for.
async fn waiting(fixture: &dyn Fixture) -> Waiting {
    let remote = |local: &str| format!("{local}@far.{}", fixture.domain()).parse().expect("an address");
    let recipients: [EmailAddress; 2] = [remote("joe"), remote("zoe")];
    let sent = send(fixture, &recipients.each_ref()).await;
    Waiting { id: sent.id, queue_id: sent.answer.expect("the message is accepted").queue_id, recipients }
}

async fn listed(fixture: &dyn Fixture, filter: &QueueFilter) -> Vec<QueueEntry> {
    let listed = fixture.backend().queue.list(filter, Page::default()).await.expect("the queue is listed");
    assert_eq!(listed.total, listed.items.len() as u64);
    listed.items
}

/// Changes a message, as soon as no attempt is in progress.
async fn change(fixture: &dyn Fixture, id: &QueueId, change: QueueChange) {
    for _ in 0..TRIES {
        match fixture.backend().queue.change(id, change).await {
            Err(QueueError::Busy) => tokio::task::yield_now().await,
            changed => return assert_eq!(changed, Ok(()), "{change:?}"),
        }
    }
    panic!("the attempt does not end");
}

/// Waits until a message is delivered and has left the queue.
async fn gone(fixture: &dyn Fixture, id: &QueueId) {
    let wait = async {
        while fixture.backend().queue.get(id).await != Err(QueueError::NotFound) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the message is delivered");
}

/// Waits for the bounces of a message, and returns their recipients in order.
async fn bounced(fixture: &dyn Fixture, start: &FeedCursor, id: MessageId, count: usize) -> Vec<EmailAddress> {
    let wait = async {
        loop {
            let mut events = events_of(fixture, start, id).await;
            events.retain(|event| event.outcome == Outcome::Bounced);
            if events.len() >= count {
                return events;
            }
            fixture.backend().delivery_feed.changed().await;
        }
    };
    let events = tokio::time::timeout(PATIENCE, wait).await.expect("the bounces are reported");
    assert!(events.iter().all(|event| event.response == QueueChange::CANCELLED), "{events:?}");
    let mut recipients: Vec<_> = events.into_iter().map(|event| event.recipient).collect();
    recipients.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    recipients
}
