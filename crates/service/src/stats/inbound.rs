//! What doors tell of mail from outside.

use std::collections::HashSet;
use std::mem;
use std::sync::{Mutex, PoisonError};

use mailapi_backend::InboundLog;
use mailapi_model::{DomainName, InboundEvent};

use crate::{Service, Unavailable};

/// Events that are not written down yet. Losing them in a crash makes a count too small, and nothing else.
#[derive(Default)]
pub(crate) struct InboundTally(Mutex<Vec<InboundEvent>>);

impl InboundLog for Service {
    /// Past [`super::StatsLimits::max_unwritten_inbound`] an event is not counted: a flood must not fill the memory.
    fn note(&self, event: InboundEvent) {
        let mut unwritten = self.0.inbound.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unwritten.len() < self.0.settings.stats.max_unwritten_inbound {
            unwritten.push(event);
        }
    }
}

impl Service {
    /// Notes how mail from outside was received; the next roll-up counts it.
    ///
    /// # Errors
    /// [`Unavailable`]; nothing was noted then.
    pub async fn record_inbound(&self, events: &[InboundEvent]) -> Result<(), Unavailable> {
        Ok(self.0.store.stats().record_inbound(events).await?)
    }

    /// Writes down what the doors have told since the step before, as far as it is about domains of ours: whoever
    /// tries to relay through us names others. Returns how many events were written.
    ///
    /// # Errors
    /// [`Unavailable`] when the store is; the events are kept for the next step.
    pub async fn write_inbound_once(&self) -> Result<usize, Unavailable> {
        let events = mem::take(&mut *self.0.inbound.0.lock().unwrap_or_else(PoisonError::into_inner));
        match self.record_ours(&events).await {
            Ok(count) => Ok(count),
            Err(error) => {
                let mut unwritten = self.0.inbound.0.lock().unwrap_or_else(PoisonError::into_inner);
                unwritten.splice(0..0, events);
                Err(error)
            }
        }
    }

    async fn record_ours(&self, events: &[InboundEvent]) -> Result<usize, Unavailable> {
        if events.is_empty() {
            return Ok(0);
        }
        let ours: HashSet<DomainName> = self.0.store.domains().approved_names().await?.into_iter().collect();
        let events: Vec<InboundEvent> = events.iter().filter(|event| ours.contains(&event.domain)).cloned().collect();
        self.record_inbound(&events).await?;
        Ok(events.len())
    }
}
