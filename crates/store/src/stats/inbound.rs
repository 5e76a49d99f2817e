//! Incoming mail, as reported by the SMTP listeners.

use mailapi_model::InboundEvent;

use super::Stats;
use crate::StoreError;
use crate::db::Stmt;

impl Stats<'_> {
    /// Records incoming mail in one transaction; the next roll-up counts it.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn record_inbound(&self, events: &[InboundEvent]) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        self.0.batch(events.iter().map(insert_event).collect()).await.map(drop)
    }
}

fn insert_event(event: &InboundEvent) -> Stmt {
    Stmt::new("INSERT INTO inbound_mail (at, domain, sender_domain, outcome) VALUES ($1, $2, $3, $4)")
        .bind(event.at)
        .bind(&event.domain)
        .bind(event.sender_domain.as_ref())
        .bind(event.outcome.as_str())
}
