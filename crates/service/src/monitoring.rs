//! Metrics for monitoring. Counters are counted where things happen; gauges that need a query are computed for a scrape.

use std::time::Duration;

use mailapi_backend::{Awaited, Backlog, ImportProgress};
use mailapi_metrics::{CodeClass, Metrics, QueueState, Recipient, Work};
use mailapi_model::{DeliveryEvent, Evidence, MessageStatus, Outcome, Scope};
use mailapi_store::OpenRecipient;
use tokio::sync::Mutex;

use crate::{Service, Unavailable};

/// Time for which computed gauges are reused: shorter than any usual interval of scrapes, and long enough that several
/// scrapers cost no more than one.
const REUSED_FOR: Duration = Duration::from_secs(5);
/// Time limit of the queries. Prometheus gives up after ten seconds.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Largest number of messages that are counted. A longer queue is shown as this long.
const MOST_COUNTED: usize = 50_000;
/// Number of messages whose recipients are compared with the mail server, the oldest first. A lost one becomes one of
/// the oldest.
const MOST_COMPARED: usize = 5_000;
/// Age from which messages are compared: Postfix's log names younger ones a moment after their submission.
const COMPARED_FROM: Duration = Duration::from_secs(60);

/// When the gauges were last computed, on the steady clock.
#[derive(Default)]
pub(crate) struct LastMeasured(Mutex<Option<Duration>>);

impl Service {
    /// The metrics of this server.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Returns all metrics as text. Gauges whose query fails are not numbers.
    pub async fn scrape(&self) -> String {
        self.measure().await;
        self.0.metrics.text()
    }

    async fn measure(&self) {
        // The lock is held during the queries, so that parallel scrapes share one run.
        let mut last = self.0.last_measured.0.lock().await;
        let now = self.0.clock.steady();
        if last.is_some_and(|at| now.saturating_sub(at) < REUSED_FOR) {
            return;
        }
        let (_, unaccounted, backlog) =
            tokio::join!(self.measure_queue(), timed(self.unaccounted_recipients()), timed(self.backlog()));
        self.0.metrics.set_unaccounted(unaccounted);
        let backlog = backlog.flatten();
        self.0.metrics.set_backlog(Work::Index, backlog.map(|backlog| backlog.to_index));
        self.0.metrics.set_backlog(Work::Removal, backlog.map(|backlog| backlog.to_remove));
        *last = Some(self.0.clock.steady());
    }

    /// Returns what background work of the mail server has left; `None` if the mail server does not say.
    ///
    /// # Errors
    /// [`Unavailable`] when the mail server cannot be asked.
    pub async fn backlog(&self) -> Result<Option<Backlog>, Unavailable> {
        self.0.backend.mailboxes.backlog().await.map_err(Unavailable::mailboxes)
    }

    /// Returns the imports of mail that run or were interrupted, the latest progress first.
    ///
    /// # Errors
    /// [`Unavailable`] when the mail server cannot be asked.
    pub async fn imports(&self) -> Result<Vec<ImportProgress>, Unavailable> {
        self.0.backend.mailboxes.imports().await.map_err(Unavailable::mailboxes)
    }

    async fn measure_queue(&self) {
        let (sent, metrics) = (self.0.store.sent(), &self.0.metrics);
        let status = |status| async move { Ok(sent.count_open(status, MOST_COUNTED).await?) };
        let at_server = async { Ok(self.0.backend.delivery_feed.queue(MOST_COUNTED).await?) };
        let (pending, at_server) = tokio::join!(timed(status(MessageStatus::Pending)), timed(at_server));
        metrics.set_queue(QueueState::Pending, pending.map(|open| open.count));
        let (queued, deferred, oldest) = match at_server {
            Some(Some(queue)) => (Some(queue.queued), Some(queue.deferred), Some(queue.oldest)),
            // Another process reads the mail server's log, so only the statuses are known here.
            Some(None) => {
                let submitted = timed(status(MessageStatus::Submitted)).await;
                (submitted.map(|open| open.count), None, submitted.map(|open| open.oldest))
            }
            None => (None, None, None),
        };
        metrics.set_queue(QueueState::Queued, queued);
        metrics.set_queue(QueueState::Deferred, deferred);
        let now = self.0.clock.now();
        let age = pending.zip(oldest).map(|(pending, oldest)| {
            let oldest = [pending.oldest, oldest].into_iter().flatten().min();
            oldest.map_or(Duration::ZERO, |oldest| now.since(oldest))
        });
        metrics.set_queue_oldest(age);
    }

    /// Returns the number of accepted recipients without a final status that the mail server no longer has: neither in
    /// its queue nor in an unread report.
    ///
    /// # Errors
    /// [`Unavailable`] when a source cannot be read.
    async fn unaccounted_recipients(&self) -> Result<u64, Unavailable> {
        // Until the lock is released, no report moves from the feed to the statuses. So a recipient without a final
        // status whose delivery ends meanwhile still has its report in the feed.
        let _following = self.0.following.lock().await;
        let before = self.0.clock.now().minus(COMPARED_FROM);
        let open = self.0.store.sent().open_recipients(before, MOST_COMPARED).await?;
        let awaited = |open: OpenRecipient| Awaited {
            by_this_node: open.node == self.0.settings.node,
            message_id: open.message_id,
            queue_id: open.queue_id,
            recipient: open.recipient,
        };
        let open: Vec<_> = open.into_iter().map(awaited).collect();
        let are_awaited = self.0.backend.delivery_feed.are_awaited(&open).await?;
        let lost: Vec<_> = open.iter().zip(are_awaited).filter(|(_, is_awaited)| !is_awaited).collect();
        for (lost, _) in lost.iter().take(3) {
            tracing::error!(message_id = %lost.message_id, "a recipient is open, and the mail server no longer has it");
        }
        Ok(lost.len() as u64)
    }

    /// Counts stored reports of the mail server. `changes` are the places of those that changed a recipient.
    pub(crate) fn count_reports(&self, events: &[DeliveryEvent], changes: &[usize]) {
        let metrics = &self.0.metrics;
        for event in events.iter().filter(|event| event.evidence == Evidence::MailServer) {
            metrics.count_attempt(code_class(event));
        }
        for event in changes.iter().filter_map(|place| events.get(*place)) {
            let outcome = match event.outcome {
                Outcome::Sent => Recipient::Delivered,
                Outcome::Failed => Recipient::Failed,
                Outcome::Bounced | Outcome::Expired if event.scope() == Scope::Recipient => Recipient::Bounced,
                Outcome::Bounced | Outcome::Expired | Outcome::Deferred => continue,
            };
            metrics.count_recipients(outcome, 1);
            if event.outcome == Outcome::Sent {
                metrics.note_delivery_delay(event.delay);
            }
        }
    }
}

/// Returns the class of the reply to the last attempt. An expired message ends with the reply of an earlier attempt.
fn code_class(event: &DeliveryEvent) -> CodeClass {
    match event.dsn.map(|dsn| dsn.class) {
        Some(2) => CodeClass::Success,
        Some(4) => CodeClass::Transient,
        Some(5) => CodeClass::Permanent,
        _ => CodeClass::None,
    }
}

/// Returns the result of a query, or `None` if it failed or took too long.
async fn timed<T>(query: impl Future<Output = Result<T, Unavailable>>) -> Option<T> {
    match tokio::time::timeout(TIME_LIMIT, query).await {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            tracing::warn!(%error, "a gauge could not be computed");
            None
        }
        Err(_) => {
            tracing::warn!("a gauge took too long");
            None
        }
    }
}
