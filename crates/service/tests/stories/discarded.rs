//! Messages that the mail server discards by a rule of its operator: accepted reports, and resulting statuses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Backend, DeliveryFeed, Discarded, FeedBatch, FeedError, LostPart};
use mailapi_model::{
    Clock, DeliveryEvent, EmailAddress, Evidence, FeedCursor, MessageId, MessageStatus, Outcome, QueueId,
    RecipientStatus,
};
use mailapi_service::events::{After, EventQuery};
use mailapi_service::{Parts, Service};
use mailapi_testkit::{SeededEntropy, TestApp};

use crate::recovery::begin as begin_sending;
use crate::{caller, message, parts};

/// A log that reports discarded messages, deliveries in the same batch, and its losses.
#[derive(Default)]
struct Log(Mutex<Vec<Discarded>>, Mutex<Vec<DeliveryEvent>>, Mutex<Vec<LostPart>>);

#[async_trait]
impl DeliveryFeed for Log {
    fn name(&self) -> &str {
        "log"
    }

    async fn read_after(&self, cursor: &FeedCursor, _: usize) -> Result<FeedBatch, FeedError> {
        let discarded = self.0.lock().unwrap();
        let read: usize = cursor.0.parse().unwrap_or_default();
        let cursor = FeedCursor(discarded.len().to_string());
        let events = self.1.lock().unwrap().drain(..).collect();
        Ok(FeedBatch { events, discarded: discarded[read..].to_vec(), cursor, lines_read: 1, ..FeedBatch::default() })
    }

    async fn forget_until(&self, _: &FeedCursor) -> Result<(), FeedError> {
        Ok(())
    }

    async fn changed(&self) {}

    async fn lost_parts(&self) -> Vec<LostPart> {
        self.2.lock().unwrap().clone()
    }
}

struct Story {
    app: TestApp,
    service: Service,
    log: Arc<Log>,
    id: MessageId,
    queue_id: QueueId,
}

impl Story {
    /// Ann has submitted a message to two recipients elsewhere.
    async fn begin() -> Self {
        let app = TestApp::start().await;
        let ann = app.user("ann@example.org").await;
        let to = ["carl@example.net", "dan@example.net"];
        let id = app.service.send(&caller(&app, &ann).await, message("ann@example.org", &to)).await.unwrap().message_id;
        let log = Arc::new(Log::default());
        let service = Self::service(&app, log.clone());
        let queue_id = app.store.sent().get(id).await.unwrap().unwrap().message.queue_id.unwrap();
        Self { app, service, log, id, queue_id }
    }

    /// Returns the operations of a process that reads this log.
    fn service(app: &TestApp, log: Arc<Log>) -> Service {
        let backend = Backend { delivery_feed: log, ..app.mail_server.backend() };
        Service::new(Parts { backend, ..parts(app) })
    }

    /// Reports a discarded message in the log. Returns the numbers of added entries and changed messages.
    async fn discard(&self, message_id: MessageId, queue_id: &QueueId, refused: &[&str]) -> (u64, u64) {
        self.log.0.lock().unwrap().push(Discarded {
            at: self.app.clock.now(),
            message_id,
            queue_id: queue_id.clone(),
            refused: refused.iter().map(|address| address.parse().unwrap()).collect(),
            response: "discard: header Subject: x from api[127.0.0.1]: no adverts".to_owned(),
        });
        let (synced, _) = self.service.follow_once().await.unwrap();
        (synced.entries_added, synced.messages_updated)
    }

    async fn statuses(&self) -> (MessageStatus, Vec<(EmailAddress, RecipientStatus, Option<String>)>) {
        let record = self.app.store.sent().get(self.id).await.unwrap().unwrap();
        let recipients = record.recipients.into_iter().map(|one| (one.email, one.status, one.smtp_response));
        (record.message.status, recipients.collect())
    }
}

#[tokio::test]
async fn a_discarded_copy_or_foreign_message_changes_nothing() {
    let story = Story::begin().await;
    let before = story.statuses().await;
    assert_eq!(story.discard(story.id, &QueueId("COPY01".to_owned()), &[]).await, (0, 0));
    assert_eq!(
        story.discard(MessageId::random(story.app.clock.now(), &SeededEntropy::new(77)), &story.queue_id, &[]).await,
        (0, 0)
    );
    assert_eq!(story.statuses().await, before);
}

#[tokio::test]
async fn a_discarded_message_is_reported_once_for_all_recipients() {
    let story = Story::begin().await;
    assert_eq!(story.discard(story.id, &story.queue_id, &[]).await, (2, 1));
    assert_eq!(story.discard(story.id, &story.queue_id, &[]).await, (0, 0));
    let (status, recipients) = story.statuses().await;
    assert_eq!(status, MessageStatus::Bounced);
    let rule = Some("discard: header Subject: x from api[127.0.0.1]: no adverts".to_owned());
    assert!(recipients.iter().all(|(_, status, said)| *status == RecipientStatus::Bounced && *said == rule));
}

#[tokio::test]
async fn after_the_queue_id_is_stored_a_report_closes_all_recipients() {
    let story = Story::begin().await;
    assert_eq!(story.discard(story.id, &story.queue_id, &["dan@example.net"]).await, (2, 1));
    let (status, recipients) = story.statuses().await;
    assert_eq!(status, MessageStatus::Bounced);
    assert!(recipients.iter().all(|(_, status, _)| *status == RecipientStatus::Bounced));
}

#[tokio::test]
async fn during_submission_refusals_are_left_to_the_reply() {
    let mut story = Story::begin().await;
    let to = ["carl@example.net", "dan@example.net"];
    story.id = begin_sending(&story.app, 7, &to).await.message_id;
    assert_eq!(story.discard(story.id, &QueueId("A00007".to_owned()), &["dan@example.net"]).await.0, 1);
    let (_, recipients) = story.statuses().await;
    let statuses: Vec<_> = recipients.iter().map(|(email, status, _)| (email.as_str(), *status)).collect();
    let expected = [("carl@example.net", RecipientStatus::Bounced), ("dan@example.net", RecipientStatus::Pending)];
    assert_eq!(statuses, expected);
}

#[tokio::test]
async fn recipients_delivered_before_the_deletion_stay_delivered() {
    let story = Story::begin().await;
    let event = |recipient: &str, outcome| DeliveryEvent {
        at: story.app.clock.now(),
        message_id: Some(story.id),
        queue_id: story.queue_id.clone(),
        sender: "ann@example.org".parse().ok(),
        recipient: recipient.parse().unwrap(),
        final_recipient: None,
        outcome,
        evidence: Evidence::MailServer,
        dsn: None,
        response: "250 Ok".to_owned(),
        relay: None,
        delay: Duration::ZERO,
        next_attempt_at: None,
    };
    let events = [event("carl@example.net", Outcome::Sent), event("dan@example.net", Outcome::Deferred)];
    story.log.1.lock().unwrap().extend(events);
    assert_eq!(story.discard(story.id, &story.queue_id, &[]).await, (3, 1));
    let (status, recipients) = story.statuses().await;
    assert_eq!(status, MessageStatus::Partial);
    let statuses: Vec<_> = recipients.iter().map(|(email, status, _)| (email.as_str(), *status)).collect();
    let expected = [("carl@example.net", RecipientStatus::Sent), ("dan@example.net", RecipientStatus::Bounced)];
    assert_eq!(statuses, expected);
}

#[tokio::test]
async fn each_lost_part_of_the_log_is_one_event() {
    let story = Story::begin().await;
    let now = story.app.clock.now();
    let part = |minutes: u64, reason| {
        let at = now.plus(Duration::from_secs(60 * minutes));
        LostPart { at, from: Some(now), to: at, reason }
    };
    let follow = async || while story.service.follow_once().await.unwrap().1 {};
    *story.log.2.lock().unwrap() = vec![part(1, "truncated")];
    follow().await;
    *story.log.2.lock().unwrap() = vec![part(1, "truncated"), part(3, "torn_line")];
    follow().await;
    // The clock was set back, so the third loss was noticed before the second.
    *story.log.2.lock().unwrap() = vec![part(1, "truncated"), part(3, "torn_line"), part(2, "file_vanished")];
    follow().await;
    // Another process on the same database, as after a restart.
    story.app.service.read_events_once().await.unwrap();
    let again = Story::service(&story.app, story.log.clone());
    while again.follow_once().await.unwrap().1 {}
    again.read_events_once().await.unwrap();

    let admin = caller(&story.app, story.app.admin()).await;
    let types = vec!["delivery.gap".parse().unwrap()];
    let query = EventQuery { after: After::Start, types, ..EventQuery::default() };
    let page = again.list_events(&admin, &query, 10, Duration::ZERO).await.unwrap();
    let bodies = page.events.iter().map(|event| serde_json::from_str::<serde_json::Value>(&event.body).unwrap());
    let stored: Vec<_> = bodies.map(|body| body["data"].clone()).collect();
    let data = |part: LostPart| serde_json::json!({"feed": "log", "from": now.to_string(), "to": part.to.to_string(), "reason": part.reason});
    assert_eq!(
        stored,
        [(1, "truncated"), (3, "torn_line"), (2, "file_vanished")].map(|(at, reason)| data(part(at, reason)))
    );
}
