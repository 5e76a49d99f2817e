//! How the newest mail of other servers arrived.

use std::collections::HashSet;

use mailapi_events::{EventCursor, EventType, TypePattern, event_facts};
use mailapi_model::EmailAddress;
use mailapi_store::{EventFilter, EventScope};

use crate::{Service, Unavailable};

/// Number of the newest events that are read.
const EXAMINED: u64 = 5_000;
/// Maximum number of messages that are counted.
const COUNTED: usize = 1_000;

/// Mail with authors of other domains, among the newest events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArrivedMail {
    /// Mail that was checked.
    pub checked: usize,
    /// Mail that was not, because its client is in a trusted network.
    pub unchecked: usize,
}

impl Service {
    /// Counts mail with authors of other domains that arrived recently.
    ///
    /// # Errors
    /// [`Unavailable`] if the database cannot be read.
    pub async fn arrived_mail(&self) -> Result<ArrivedMail, Unavailable> {
        let own: HashSet<_> = self.0.store.domains().approved_names().await?.into_iter().collect();
        let events = self.0.store.events();
        let start = EventCursor::after_number(events.newest().await?.number().saturating_sub(EXAMINED));
        let types = vec![TypePattern::One(EventType::MessageReceived)];
        let filter = EventFilter { types, ..EventFilter::of(EventScope::All) };
        let mut arrived = ArrivedMail::default();
        for event in events.kept_after(start, &filter, COUNTED).await?.events {
            let facts = event_facts(&event.body);
            let author = facts.iter().find(|(name, _)| name == "from");
            let author = author.and_then(|(_, text)| text.parse::<EmailAddress>().ok());
            // Mail of this server's users is never checked.
            if author.is_none_or(|author| own.contains(&author.domain())) {
                continue;
            }
            match facts.iter().any(|(name, _)| name.starts_with("authentication.")) {
                true => arrived.checked += 1,
                false => arrived.unchecked += 1,
            }
        }
        Ok(arrived)
    }
}
