//! Metrics: counts of what happened, and gauges that are computed for a scrape.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Awaited, Backend, DeliveryFeed, FeedBatch, FeedError, InboundLog};
use mailapi_model::{FeedCursor, InboundEvent, InboundOutcome, SecretText};
use mailapi_service::{Parts, Service};
use mailapi_testkit::{PASSWORD, TestApp};

use crate::{HERE, caller, message, parts};

/// Longer than computed gauges are reused.
const LATER: Duration = Duration::from_secs(6);
const MINUTES: Duration = Duration::from_secs(300);

/// A delivery feed without news whose mail server can lose its queue.
#[derive(Default)]
struct Forgetful(AtomicBool);

#[async_trait]
impl DeliveryFeed for Forgetful {
    fn name(&self) -> &str {
        "forgetful"
    }

    async fn read_after(&self, cursor: &FeedCursor, _: usize) -> Result<FeedBatch, FeedError> {
        Ok(FeedBatch { cursor: cursor.clone(), ..FeedBatch::default() })
    }

    async fn forget_until(&self, _: &FeedCursor) -> Result<(), FeedError> {
        Ok(())
    }

    async fn changed(&self) {}

    async fn are_awaited(&self, recipients: &[Awaited]) -> Result<Vec<bool>, FeedError> {
        Ok(vec![!self.0.load(Ordering::Relaxed); recipients.len()])
    }
}

async fn assert_shows(service: &Service, lines: &[&str]) {
    let text = service.scrape().await;
    for line in lines {
        assert!(text.lines().any(|shown| shown == *line), "{line} is missing from {text}");
    }
}

#[tokio::test]
async fn a_lost_recipient_is_unaccounted_for() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    let feed = Arc::new(Forgetful::default());
    let backend = Backend { delivery_feed: feed.clone(), ..app.mail_server.backend() };
    let service = Service::new(Parts { backend, ..parts(&app) });
    let to = ["carl@example.net", "dan@example.net"];
    service.send(&caller(&app, &ann).await, message("ann@example.org", &to)).await.unwrap();
    app.clock.advance(MINUTES);
    assert_shows(&service, &["mailapi_unaccounted_recipients 0.0", "mailapi_queue_oldest_age_seconds 300.0"]).await;
    feed.0.store(true, Ordering::Relaxed);
    assert_shows(&service, &["mailapi_unaccounted_recipients 0.0"]).await;
    app.clock.advance(LATER);
    assert_shows(&service, &["mailapi_unaccounted_recipients 2.0"]).await;
}

#[tokio::test]
async fn sent_mail_is_counted_by_its_end() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    app.user("bob@example.org").await;
    let to = ["bob@example.org", "nobody@example.org"];
    app.service.send(&caller(&app, &ann).await, message("ann@example.org", &to)).await.unwrap();
    app.settle().await;
    app.clock.advance(MINUTES);
    assert_shows(
        &app.service,
        &[
            "mailapi_recipients_total{outcome=\"delivered\"} 1",
            "mailapi_delivery_delay_seconds_count 1",
            "mailapi_queue_messages{state=\"pending\"} 0.0",
            "mailapi_unaccounted_recipients 0.0",
        ],
    )
    .await;
}

#[tokio::test]
async fn log_ins_and_mail_from_outside_are_counted() {
    let app = TestApp::start().await;
    app.user("ann@example.org").await;
    let password = |text: &str| SecretText::new(text.to_owned());
    app.service.login("ann@example.org", &password("wrong"), HERE).await.unwrap_err();
    app.service.login("ann@example.org", &password(PASSWORD), HERE).await.unwrap();
    for outcome in InboundOutcome::ALL {
        let domain = "example.org".parse().unwrap();
        app.service.note(InboundEvent { at: app.service.clock().now(), domain, sender_domain: None, outcome });
    }
    assert_shows(
        &app.service,
        &[
            "mailapi_auth_total{result=\"accepted\"} 1",
            "mailapi_auth_total{result=\"refused\"} 1",
            "mailapi_auth_total{result=\"locked\"} 0",
            "mailapi_inbound_total{outcome=\"accepted\"} 1",
            "mailapi_inbound_total{outcome=\"spam\"} 1",
            "mailapi_inbound_total{outcome=\"rejected\"} 1",
        ],
    )
    .await;
}
