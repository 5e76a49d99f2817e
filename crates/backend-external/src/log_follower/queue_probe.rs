//! The queue probe: checks whether a message that a crash interrupted is in Postfix's queue.
//!
//! A listing reads one directory after the other while messages move between them, so it can miss one that is
//! requeued. And the log may be slightly behind the queue. So a message counts as absent only if two listings lack
//! it, some time apart. The log must also have no line about it after the second one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mailapi_backend::{Accepted, Attempt};
use mailapi_model::MessageId;
use tokio::time::Instant;

use super::postqueue::{Listing, Postqueue, Queued};
use super::settings::LogSettings;
use super::submitted_ids::SubmittedIds;

/// Looks for messages in the queue, and remembers which were absent.
pub(super) struct QueueProbe {
    queue: Option<Postqueue>,
    /// The minimum time between the two listings.
    distance: Duration,
    /// How much earlier than its submission a message may have arrived, by another clock.
    margin: Duration,
    sought: Mutex<HashMap<MessageId, Sought>>,
    /// How long a message is looked for.
    lifetime: Duration,
}

/// A message that is looked for.
#[derive(Debug, Clone, Copy)]
struct Sought {
    /// Since when no submission is in progress.
    since: Instant,
    /// The first listing without the message.
    absent_at: Option<Instant>,
}

/// The result of a probe.
pub(super) enum ProbeResult {
    /// The message is in the queue.
    Here(Accepted),
    /// No identified message in the queue is the one; these unidentified ones may be.
    Absent {
        /// The listing.
        listing: Arc<Listing>,
        /// The queue ids of messages that may be the one, unless the log identifies them.
        suspects: Vec<String>,
    },
    /// Not decidable yet, or never.
    Open(&'static str),
}

impl QueueProbe {
    pub(super) fn new(settings: &LogSettings) -> Self {
        Self {
            queue: Postqueue::new(settings),
            distance: settings.settle_time,
            margin: settings.reception_time,
            sought: Mutex::default(),
            lifetime: settings.index_lifetime,
        }
    }

    /// Looks for a message whose submission has ended. `entered` lists the queue ids under which the log shows its
    /// reception.
    ///
    /// # Errors
    /// The reason, if the queue cannot be listed.
    pub(super) async fn look(
        &self,
        attempt: &Attempt,
        entered: &[Accepted],
        submitted_ids: &SubmittedIds,
    ) -> Result<ProbeResult, String> {
        let Some(queue) = &self.queue else {
            return Ok(ProbeResult::Open("the mail server crashed, and its queue is not listed here"));
        };
        let sought = self.seek(attempt.message_id);
        let after = sought.absent_at.map_or(sought.since, |first| first + self.distance);
        if Instant::now() <= after {
            return Ok(ProbeResult::Open("the mail server's queue will be looked through once more"));
        }
        let listing = queue.begun_after(after).await?;
        let is_it = |queued: &&Queued| {
            let address = queued.sender.parse().ok();
            let by_address = address.and_then(|address| submitted_ids.of_return_address(&address));
            by_address == Some(attempt.message_id) || entered.iter().any(|known| known.queue_id.0 == queued.queue_id)
        };
        if let Some(queued) = listing.messages.iter().find(is_it) {
            let known = entered.iter().find(|known| known.queue_id.0 == queued.queue_id).cloned();
            let queue_id = mailapi_model::QueueId(queued.queue_id.clone());
            return Ok(ProbeResult::Here(known.unwrap_or(Accepted { queue_id, refused: Vec::new() })));
        }
        // Regardless of the sender: the queue has the address after canonical maps, milters and SRS.
        let begun = attempt.since.minus(self.margin);
        let may_be_it = |queued: &&Queued| queued.arrived >= begun;
        let suspects = listing.messages.iter().filter(may_be_it).map(|queued| queued.queue_id.clone()).collect();
        Ok(ProbeResult::Absent { listing, suspects })
    }

    /// Notes a listing without the message. Returns whether it is the second one.
    pub(super) fn note_absent(&self, message_id: MessageId, listing: &Listing) -> bool {
        let mut sought = self.sought.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sought) = sought.get_mut(&message_id) else { return false };
        match sought.absent_at {
            None => {
                sought.absent_at = Some(listing.begun);
                false
            }
            Some(first) => listing.begun > first + self.distance,
        }
    }

    /// Stops looking for a message, or starts over.
    pub(super) fn forget(&self, message_id: MessageId) {
        self.sought.lock().unwrap_or_else(PoisonError::into_inner).remove(&message_id);
    }

    /// Returns the state of the search for a message, and begins one if there is none.
    fn seek(&self, message_id: MessageId) -> Sought {
        let now = Instant::now();
        let mut sought = self.sought.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sought.get(&message_id) {
            return *known;
        }
        sought.retain(|_, sought| now.duration_since(sought.since) < self.lifetime);
        *sought.entry(message_id).or_insert(Sought { since: now, absent_at: None })
    }
}
