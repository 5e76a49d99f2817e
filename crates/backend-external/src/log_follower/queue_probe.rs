//! The queue probe: checks whether a message that a crash interrupted is in Postfix's queue.
//!
//! A listing reads one directory after the other while messages move between them, so it can miss one that is
//! requeued. And the log may be slightly behind the queue. So a message counts as absent only if two listings lack
//! it, some time apart. The log must also have no line about it after the second one.

use std::time::Duration;

use mailapi_backend::{Accepted, Attempt};
use mailapi_model::QueueId;
use tokio::time::Instant;

use super::postqueue::{Postqueue, Queued};
use super::settings::LogSettings;
use super::submitted_ids::SubmittedIds;

/// The reason while a second listing is needed.
pub(super) const SECOND_LISTING: &str = "the mail server's queue will be listed once more";

/// Looks for messages in the queue.
pub(super) struct QueueProbe {
    queue: Option<Postqueue>,
    /// The minimum time between the two listings.
    distance: Duration,
    /// How much earlier than its submission a message may have arrived, by another clock.
    margin: Duration,
}

/// The result of a probe.
pub(super) enum ProbeResult {
    /// The message is in the queue.
    Here(Accepted),
    /// No identified message in the queue is the one; these unidentified ones may be.
    Absent {
        /// When the listing began.
        begun: Instant,
        /// The queue ids of messages that may be the one, unless the log identifies them.
        suspects: Vec<String>,
    },
    /// Not decidable yet, or never.
    Open(&'static str),
}

impl QueueProbe {
    pub(super) fn new(settings: &LogSettings) -> Self {
        Self { queue: Postqueue::new(settings), distance: settings.settle_time, margin: settings.reception_time }
    }

    /// Looks for a message whose submission has ended. `entered` lists the queue ids under which the log shows its
    /// reception. `absent_at` is the beginning of an earlier listing without the message.
    ///
    /// # Errors
    /// The reason, if the queue cannot be listed.
    pub(super) async fn look(
        &self,
        attempt: &Attempt,
        entered: &[Accepted],
        absent_at: Option<Instant>,
        submitted_ids: &SubmittedIds,
    ) -> Result<ProbeResult, String> {
        let Some(queue) = &self.queue else {
            return Ok(ProbeResult::Open("the mail server crashed, and mail.external.log.postqueue is not set"));
        };
        let now = Instant::now();
        let after = absent_at.map_or(now, |first| first + self.distance);
        if now < after {
            return Ok(ProbeResult::Open(SECOND_LISTING));
        }
        let listing = queue.begun_after(after).await?;
        let is_it = |queued: &&Queued| {
            let address = queued.sender.parse().ok();
            let by_address = address.and_then(|address| submitted_ids.of_return_address(&address));
            by_address == Some(attempt.message_id) || entered.iter().any(|known| known.queue_id.0 == queued.queue_id)
        };
        if let Some(queued) = listing.messages.iter().find(is_it) {
            let known = entered.iter().find(|known| known.queue_id.0 == queued.queue_id).cloned();
            let queue_id = QueueId(queued.queue_id.clone());
            return Ok(ProbeResult::Here(known.unwrap_or(Accepted { queue_id, refused: Vec::new() })));
        }
        // Regardless of the sender: the queue has the address after canonical maps, milters and SRS.
        let begun = attempt.since.minus(self.margin);
        let may_be_it = |queued: &&Queued| queued.arrived >= begun;
        let suspects = listing.messages.iter().filter(may_be_it).map(|queued| queued.queue_id.clone()).collect();
        Ok(ProbeResult::Absent { begun: listing.begun, suspects })
    }
}
