//! Finds a mailbox to test the mail server with.

use mailapi_model::{EmailAddress, Page};
use mailapi_store::AccountFilter;

use crate::{Service, Unavailable};

impl Service {
    /// Returns the address of the newest enabled account, else of the newest account; `None` without accounts.
    /// Does not contact the mail server, so that this works while the mail server is being examined.
    ///
    /// # Errors
    /// [`Unavailable`] if the database is.
    pub async fn newest_mailbox(&self) -> Result<Option<EmailAddress>, Unavailable> {
        for active in [Some(true), None] {
            let filter = AccountFilter { active, ..AccountFilter::default() };
            let newest = self.0.store.accounts().list(&filter, Page::new(1, 0)).await?.items;
            if let Some(account) = newest.into_iter().next() {
                return Ok(Some(account.email));
            }
        }
        Ok(None)
    }
}
