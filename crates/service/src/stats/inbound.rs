//! Counts of mail from outside, as reported by the listeners.

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use mailapi_backend::InboundLog;
use mailapi_events::{NewEvent, rejected};
use mailapi_metrics::Inbound;
use mailapi_model::{DomainName, InboundEvent, InboundOutcome, InboundRefusal};

use crate::{Service, Unavailable};

/// Events not yet stored. Losing them in a crash makes a count too low, without further effect.
#[derive(Default)]
pub(crate) struct InboundTally(Mutex<VecDeque<InboundEvent>>);

/// Maximum number of events in one transaction: as many as one roll-up counts, so that a flood cannot make the journal
/// grow.
const AT_ONCE: usize = 1_000;

impl InboundLog for Service {
    /// Above [`super::StatsLimits::max_unwritten_inbound`] events are dropped: a flood must not fill the memory.
    fn note(&self, event: InboundEvent) {
        self.0.metrics.count_inbound(match event.outcome {
            InboundOutcome::Accepted => Inbound::Accepted,
            InboundOutcome::Spam => Inbound::Spam,
            InboundOutcome::Rejected => Inbound::Rejected,
        });
        // An accepted message has stored its event.
        self.0.events.wake();
        // Rankings count accepted mail only, and the senders of refused mail are mostly invented: each would be a group of
        // its own.
        let is_rejected = event.outcome == InboundOutcome::Rejected;
        let sender_domain = event.sender_domain.filter(|_| !is_rejected);
        let mut unwritten = self.unwritten();
        if unwritten.len() < self.0.settings.stats.max_unwritten_inbound {
            unwritten.push_back(InboundEvent { sender_domain, ..event });
        }
    }

    fn refused(&self, refusal: InboundRefusal) {
        self.0.refusals.note(refusal);
    }
}

/// Passes reports of mail from outside to a service that is created after its mail server.
///
/// The service holds the mail server, so this reference is weak: a strong one would keep both forever.
#[derive(Default)]
pub struct LateInboundLog(OnceLock<Weak<Service>>);

impl LateInboundLog {
    /// Sets the service, which receives reports for as long as it exists.
    pub fn attach(&self, service: &Arc<Service>) {
        // Only the first one counts.
        let _ = self.0.set(Arc::downgrade(service));
    }

    fn service(&self) -> Option<Arc<Service>> {
        self.0.get().and_then(Weak::upgrade)
    }
}

impl InboundLog for LateInboundLog {
    fn note(&self, event: InboundEvent) {
        if let Some(service) = self.service() {
            service.note(event);
        }
    }

    fn refused(&self, refusal: InboundRefusal) {
        if let Some(service) = self.service() {
            service.refused(refusal);
        }
    }
}

impl Service {
    /// Stores the events of refusals, for local domains only.
    async fn write_refusals(&self, local_domains: &HashSet<DomainName>) -> Result<(), Unavailable> {
        let (refusals, log) = (self.0.refusals.take(), self.0.store.events());
        let (mut events, mut left_out): (Vec<NewEvent>, u64) = (Vec::new(), 0);
        for (refusal, before) in &refusals {
            left_out += *before;
            if local_domains.contains(&refusal.recipient.domain()) {
                events.push(rejected(refusal, mem::take(&mut left_out), log.next_fact()));
            }
        }
        if let Err(error) = log.record_all(&events).await {
            self.0.refusals.put_back(refusals);
            return Err(error.into());
        }
        self.0.refusals.leave_out(left_out);
        self.0.events.wake();
        Ok(())
    }

    /// Stores events of mail from outside; the next roll-up counts them.
    ///
    /// # Errors
    /// [`Unavailable`]; nothing was stored then.
    pub async fn record_inbound(&self, events: &[InboundEvent]) -> Result<(), Unavailable> {
        Ok(self.0.store.stats().record_inbound(events).await?)
    }

    fn unwritten(&self) -> MutexGuard<'_, VecDeque<InboundEvent>> {
        self.0.inbound.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether events of the listeners wait to be stored.
    pub(super) fn has_unwritten_inbound(&self) -> bool {
        !self.unwritten().is_empty()
    }

    /// Stores the oldest events of the listeners, for local domains only: relay attempts name other domains. Returns the
    /// number of events.
    ///
    /// # Errors
    /// [`Unavailable`] if the store is; the events are kept for the next run.
    pub async fn write_inbound_once(&self) -> Result<usize, Unavailable> {
        let events: Vec<InboundEvent> = {
            let mut unwritten = self.unwritten();
            let count = unwritten.len().min(AT_ONCE);
            unwritten.drain(..count).collect()
        };
        match self.record_ours(&events).await {
            Ok(count) => Ok(count),
            Err(error) => {
                // Put them before the others.
                let mut unwritten = self.unwritten();
                events.into_iter().rev().for_each(|event| unwritten.push_front(event));
                Err(error)
            }
        }
    }

    /// Like [`Service::write_inbound_once`], before the process stops: refusals that have no event are counted in one.
    ///
    /// # Errors
    /// [`Unavailable`] if the store is.
    pub async fn write_last_inbound(&self) -> Result<(), Unavailable> {
        while self.has_unwritten_inbound() {
            self.write_inbound_once().await?;
        }
        self.0.refusals.note_last();
        self.write_refusals(&self.local_domains().await?).await
    }

    async fn local_domains(&self) -> Result<HashSet<DomainName>, Unavailable> {
        Ok(self.0.store.domains().approved_names().await?.into_iter().collect())
    }

    async fn record_ours(&self, events: &[InboundEvent]) -> Result<usize, Unavailable> {
        if events.is_empty() {
            return Ok(0);
        }
        let ours = self.local_domains().await?;
        // Each refusal is one of the events.
        self.write_refusals(&ours).await?;
        let events: Vec<InboundEvent> = events.iter().filter(|event| ours.contains(&event.domain)).cloned().collect();
        self.record_inbound(&events).await?;
        Ok(events.len())
    }
}
