//! What Postfix's queue says of a message that a crash interrupted.
//!
//! A listing of the queue goes through one directory after the other, while messages move between them: one that is
//! put back may be missed. And the log may lag a moment behind the queue. So a message is said to be nowhere only when
//! it was absent from two listings, some time apart, and the log still does not speak of it after the second one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mailapi_backend::{Accepted, Attempt};
use mailapi_model::MessageId;
use tokio::time::Instant;

use super::postqueue::{Listing, Postqueue, Queued};
use super::settings::LogSettings;
use super::submitted_ids::SubmittedIds;

/// Looks for messages in the queue, and remembers which were not there.
pub(super) struct QueueProbe {
    queue: Option<Postqueue>,
    /// How far the two listings are apart at least.
    distance: Duration,
    /// How much earlier than it was handed over, by another clock, a message may have come.
    margin: Duration,
    sought: Mutex<HashMap<MessageId, Sought>>,
    /// After this time a message is not sought any longer.
    lifetime: Duration,
}

/// A message that is being sought.
#[derive(Debug, Clone, Copy)]
struct Sought {
    /// Since then nobody is handing it over.
    since: Instant,
    /// The first listing that did not have it.
    absent_at: Option<Instant>,
}

/// What a listing says.
pub(super) enum ProbeResult {
    /// It is there.
    Here(Accepted),
    /// It is none of those that are known by name; these might be it when the log does not name them.
    Absent {
        /// Which listing says so.
        listing: Arc<Listing>,
        /// Queue ids.
        suspects: Vec<String>,
    },
    /// It cannot be told yet, or at all.
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

    /// Looks for a message that nobody is handing over any longer; `entered` is under which ids it is known to have
    /// been received.
    ///
    /// # Errors
    /// Why the queue cannot be listed.
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
        // Whoever is the sender: the queue has the address after canonical maps, milters and SRS.
        let begun = attempt.since.minus(self.margin);
        let may_be_it = |queued: &&Queued| queued.arrived >= begun;
        let suspects = listing.messages.iter().filter(may_be_it).map(|queued| queued.queue_id.clone()).collect();
        Ok(ProbeResult::Absent { listing, suspects })
    }

    /// Notes that a listing does not have the message. Whether that is the second one.
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

    /// The message is not sought any longer, or has to be sought anew.
    pub(super) fn forget(&self, message_id: MessageId) {
        self.sought.lock().unwrap_or_else(PoisonError::into_inner).remove(&message_id);
    }

    /// Since when it is sought: from now on, when it was not sought before.
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
