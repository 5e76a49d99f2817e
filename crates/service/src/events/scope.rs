//! What a caller may see of the log.

use mailapi_model::{DomainName, ReadEvents, Timestamp};
use mailapi_store::{EventScope, OwnEvents};

use crate::{Service, Unavailable};

impl Service {
    /// Returns the events that the holder of these rights may see. If an address or a domain was deleted and created
    /// again, these are only the events of its current owner.
    pub(crate) async fn event_scope(&self, rights: &ReadEvents) -> Result<EventScope, Unavailable> {
        if rights.is_for_all() {
            return Ok(EventScope::All);
        }
        let mailbox = match rights.mailbox() {
            Some(mailbox) => self.account_since(mailbox).await?.map(|since| (mailbox.clone(), since)),
            None => None,
        };
        let statistics_of = self.domains_since(rights.statistics_of()).await?;
        let mailboxes_of = self.domains_since(rights.mailboxes_of()).await?;
        Ok(EventScope::Own(OwnEvents { mailbox, statistics_of, mailboxes_of }))
    }

    /// Returns the domains that exist, with their creation times.
    async fn domains_since(&self, names: &[DomainName]) -> Result<Vec<(DomainName, Timestamp)>, Unavailable> {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            found.extend(self.0.store.domains().get(name).await?.map(|domain| (name.clone(), domain.created_at)));
        }
        Ok(found)
    }
}
