//! Bounces received as mail: accepted reports, and resulting statuses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Backend, DeliveryFeed, FeedBatch, FeedError, ReturnedNotice};
use mailapi_model::{
    Clock, DeliveryEvent, Evidence, FeedCursor, MessageId, MessageStatus, NoticeKind, Outcome, Page, QueueId,
    RecipientStatus,
};
use mailapi_service::events::{After, EventQuery};
use mailapi_service::mail::DeliveryLogFilter;
use mailapi_service::{Caller, Parts, Service, Settings};
use mailapi_testkit::{SeededEntropy, TestApp};

use crate::{caller, message, parts};

/// A mailbox for bounces, as reported by its backend.
#[derive(Default)]
struct Mailbox(Mutex<Vec<DeliveryEvent>>, Mutex<Vec<ReturnedNotice>>);

#[async_trait]
impl DeliveryFeed for Mailbox {
    fn name(&self) -> &str {
        "bounces"
    }

    async fn read_after(&self, cursor: &FeedCursor, _: usize) -> Result<FeedBatch, FeedError> {
        let events = self.0.lock().unwrap();
        let read: usize = cursor.0.parse().unwrap_or_default();
        if read > events.len() {
            return Err(FeedError("the mailbox does not exist".to_owned()));
        }
        let cursor = FeedCursor(events.len().to_string());
        let notices = self.1.lock().unwrap().clone();
        Ok(FeedBatch { events: events[read..].to_vec(), notices, cursor, lines_read: 1, ..FeedBatch::default() })
    }

    async fn forget_until(&self, _: &FeedCursor) -> Result<(), FeedError> {
        Ok(())
    }

    async fn changed(&self) {}

    async fn check(&self) -> Option<Result<(), String>> {
        Some(Err("the mailbox does not exist".to_owned()))
    }
}

struct Story {
    app: TestApp,
    service: Service,
    mailbox: Arc<Mailbox>,
    id: MessageId,
}

impl Story {
    /// Ann has sent a message to Bob, which was delivered.
    async fn begin() -> Self {
        let app = TestApp::start().await;
        let ann = app.user("ann@example.org").await;
        app.user("bob@example.org").await;
        let sent = app.service.send(&caller(&app, &ann).await, message("ann@example.org", &["bob@example.org"])).await;
        app.settle().await;
        let mailbox = Arc::new(Mailbox::default());
        let backend = Backend { bounce_feed: Some(mailbox.clone()), ..app.mail_server.backend() };
        let service = Service::new(Parts { backend, ..parts(&app) });
        Self { app, service, mailbox, id: sent.unwrap().message_id }
    }

    fn bounce(&self, id: MessageId, recipient: &str) {
        self.bounce_behind(id, recipient, None);
    }

    /// Adds a bounce from an address that the recipient forwards to.
    fn bounce_behind(&self, id: MessageId, recipient: &str, tried: Option<&str>) {
        self.mailbox.0.lock().unwrap().push(DeliveryEvent {
            at: self.app.clock.now(),
            message_id: Some(id),
            queue_id: QueueId(String::new()),
            sender: None,
            recipient: recipient.parse().unwrap(),
            final_recipient: tried.map(|tried| tried.parse().unwrap()),
            outcome: Outcome::Bounced,
            evidence: Evidence::ReturnedMail,
            dsn: "5.2.2".parse().ok(),
            response: "552 5.2.2 Mailbox full".to_owned(),
            relay: None,
            delay: Duration::ZERO,
            next_attempt_at: None,
        });
    }

    async fn logged(&self) -> Vec<DeliveryEvent> {
        let filter = DeliveryLogFilter { message_id: Some(self.id), ..DeliveryLogFilter::default() };
        let log = self.service.delivery_log(&Caller::operator(), &filter, Page::new(50, 0)).await.unwrap();
        log.items.into_iter().map(|entry| entry.event).filter(|e| e.evidence == Evidence::ReturnedMail).collect()
    }
}

#[tokio::test]
async fn a_bounce_of_what_never_was_changes_nothing() {
    let story = Story::begin().await;
    story.bounce(MessageId::random(story.app.clock.now(), &SeededEntropy::new(77)), "bob@example.org");
    story.bounce(story.id, "eve@example.org");
    let (synced, more) = story.service.collect_bounces_once().await.unwrap();
    assert_eq!((synced.entries_added, synced.messages_updated, more), (0, 0, false));
    assert_eq!(story.logged().await, []);
    let record = story.app.store.sent().get(story.id).await.unwrap().unwrap();
    assert_eq!(record.message.status, MessageStatus::Sent);
}

#[tokio::test]
async fn a_notice_that_fails_no_recipient_is_an_event_once() {
    let story = Story::begin().await;
    let stranger = MessageId::random(story.app.clock.now(), &SeededEntropy::new(77));
    let notice = |message_id, text: &str, failed: &str| ReturnedNotice {
        at: story.app.clock.now(),
        message_id,
        kind: NoticeKind::Other,
        server: "far.example".parse().ok(),
        text: text.to_owned(),
        failed: failed.parse().into_iter().collect(),
    };
    *story.mailbox.1.lock().unwrap() = vec![
        notice(story.id, "eve is unknown", "eve@example.org"),
        notice(story.id, "bob is unknown", "bob@example.org"),
        notice(stranger, "no message", ""),
    ];
    // Each batch has the same notices, as if it were read again.
    for recipient in ["eve@example.org", "joe@example.org"] {
        story.bounce(story.id, recipient);
        story.service.collect_bounces_once().await.unwrap();
    }
    while story.app.service.read_events_once().await.unwrap() {}
    let query =
        EventQuery { types: vec!["message.notice".parse().unwrap()], after: After::Start, ..EventQuery::default() };
    let admin = caller(&story.app, story.app.admin()).await;
    let found = story.app.service.list_events(&admin, &query, 100, Duration::ZERO).await.unwrap();
    let [event] = &found.events[..] else { panic!("{:?}", found.events) };
    assert_eq!((event.message_id, event.body.contains("eve is unknown")), (Some(story.id), true));
}

#[tokio::test]
async fn a_flood_of_notices_about_one_message_has_an_end() {
    let story = Story::begin().await;
    let notice = |number: usize| ReturnedNotice {
        at: story.app.clock.now(),
        message_id: story.id,
        kind: NoticeKind::Other,
        server: None,
        text: format!("nonsense {number}"),
        failed: Vec::new(),
    };
    *story.mailbox.1.lock().unwrap() = (0..500).map(notice).collect();
    story.bounce(story.id, "joe@example.org");
    story.service.collect_bounces_once().await.unwrap();
    while story.app.service.read_events_once().await.unwrap() {}
    let query =
        EventQuery { types: vec!["message.notice".parse().unwrap()], after: After::Start, ..EventQuery::default() };
    let admin = caller(&story.app, story.app.admin()).await;
    let found = story.app.service.list_events(&admin, &query, 100, Duration::ZERO).await.unwrap();
    assert!((20..30).contains(&found.events.len()), "{} events", found.events.len());
}

#[tokio::test]
async fn a_bounce_counts_as_long_as_servers_try() {
    let story = Story::begin().await;
    let lifetime = Settings::default().bounce_lifetime;
    story.app.clock.advance(lifetime + Duration::from_secs(1));
    story.bounce(story.id, "bob@example.org");
    assert_eq!(story.service.collect_bounces_once().await.unwrap().0.entries_added, 0);
    let record = story.app.store.sent().get(story.id).await.unwrap().unwrap();
    assert_eq!(record.message.status, MessageStatus::Sent);

    let story = Story::begin().await;
    story.app.clock.advance(lifetime);
    story.bounce(story.id, "bob@example.org");
    assert_eq!(story.service.collect_bounces_once().await.unwrap().0.entries_added, 1);
}

#[tokio::test]
async fn what_was_sent_becomes_bounced_once_and_both_times_are_kept() {
    let story = Story::begin().await;
    let sent_at = story.app.clock.now();
    story.app.clock.advance(Duration::from_secs(3600));
    story.bounce(story.id, "bob@example.org");
    story.bounce(story.id, "bob@example.org");
    let (synced, _) = story.service.collect_bounces_once().await.unwrap();
    assert_eq!((synced.entries_added, synced.messages_updated), (1, 1));
    // The same bounce again, as if the mailbox was created anew.
    story.bounce(story.id, "bob@example.org");
    assert_eq!(story.service.collect_bounces_once().await.unwrap().0.entries_added, 0);

    let record = story.app.store.sent().get(story.id).await.unwrap().unwrap();
    let bob = &record.recipients[0];
    assert_eq!((record.message.status, bob.status), (MessageStatus::Bounced, RecipientStatus::Bounced));
    assert_eq!((bob.delivered_at, bob.bounced_at), (Some(sent_at), Some(story.app.clock.now())));
    assert_eq!(bob.smtp_response.as_deref(), Some("552 5.2.2 Mailbox full"));
    // A bounce contains neither the sender nor the queue id and time of the submission.
    let logged = story.logged().await;
    assert_eq!((logged.len(), &logged[0].sender), (1, &"ann@example.org".parse().ok()));
    assert_eq!(
        (Some(&logged[0].queue_id), logged[0].delay),
        (record.message.queue_id.as_ref(), Duration::from_secs(3600))
    );
}

#[tokio::test]
async fn an_alias_member_bounces_once_and_the_alias_does_not() {
    let story = Story::begin().await;
    let members = ["home@far.example", "HOME@far.example", "work@far.example"];
    members.iter().for_each(|tried| story.bounce_behind(story.id, "bob@example.org", Some(tried)));
    let (synced, _) = story.service.collect_bounces_once().await.unwrap();
    assert_eq!((synced.entries_added, synced.messages_updated), (2, 1));
    // Repeated bounces, one from the forwarding target's own server, which received no ORCPT.
    story.bounce_behind(story.id, "bob@example.org", Some("home@far.example"));
    story.bounce(story.id, "work@far.example");
    assert_eq!(story.service.collect_bounces_once().await.unwrap().0.entries_added, 0);

    let status = async || {
        let record = story.app.store.sent().get(story.id).await.unwrap().unwrap();
        (record.message.status, record.recipients[0].clone())
    };
    let (whole, bob) = status().await;
    assert_eq!((whole, bob.status, bob.bounced_at), (MessageStatus::Sent, RecipientStatus::Sent, None));
    assert_eq!(bob.partly_bounced_response.as_deref(), Some("552 5.2.2 Mailbox full"));
    let tried: Vec<_> = story.logged().await.into_iter().map(|event| event.final_recipient).collect();
    assert_eq!(tried, ["work@far.example", "home@far.example"].map(|tried| tried.parse().ok()));

    // Bob's own address can still bounce; afterwards no further bounce counts.
    story.bounce(story.id, "bob@example.org");
    story.bounce_behind(story.id, "bob@example.org", Some("third@far.example"));
    assert_eq!(story.service.collect_bounces_once().await.unwrap().0.entries_added, 1);
    assert_eq!(status().await.0, MessageStatus::Bounced);
}

#[tokio::test]
async fn a_foreign_original_recipient_gives_way_to_the_final_one() {
    let story = Story::begin().await;
    story.bounce_behind(story.id, "bob@example.org", Some("home@far.example"));
    // A server names an original recipient that it was not given, beside an address behind Bob, and beside Bob.
    story.bounce_behind(story.id, "relay@far.example", Some("home@far.example"));
    assert_eq!(story.service.collect_bounces_once().await.unwrap().0.entries_added, 1);
    story.bounce_behind(story.id, "relay@far.example", Some("bob@example.org"));
    story.bounce_behind(story.id, "relay@far.example", Some("eve@example.org"));
    assert_eq!(story.service.collect_bounces_once().await.unwrap().0.entries_added, 1);
    let record = story.app.store.sent().get(story.id).await.unwrap().unwrap();
    assert_eq!(record.message.status, MessageStatus::Bounced);
}

#[tokio::test]
async fn bounces_cannot_add_addresses_without_limit() {
    let story = Story::begin().await;
    let most = Settings::default().bounce_members;
    for number in 0..=most {
        story.bounce_behind(story.id, "bob@example.org", Some(&format!("m{number}@far.example")));
    }
    let (synced, _) = story.service.collect_bounces_once().await.unwrap();
    assert_eq!(synced.entries_added, u64::try_from(most).unwrap());
}

#[tokio::test]
async fn a_manual_sync_reads_the_bounce_mailbox_and_health_shows_it() {
    let story = Story::begin().await;
    story.bounce(story.id, "bob@example.org");
    let synced = story.service.sync_delivery_log(&Caller::operator()).await.unwrap();
    assert_eq!(synced.messages_updated, 1);
    let health = story.service.health().await;
    assert_eq!(
        (health.bounces, health.is_ok()),
        (Some(Err("unavailable")), true),
        "mail works without the bounce mailbox"
    );
    assert_eq!(story.app.service.health().await.bounces, None);
    // A failed step keeps the cursor.
    story.mailbox.0.lock().unwrap().clear();
    story.service.collect_bounces_once().await.unwrap_err();
    story.bounce(story.id, "bob@example.org");
    assert_eq!(story.service.collect_bounces_once().await.unwrap().0.entries_added, 0);
}
