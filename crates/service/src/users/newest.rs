//! A mailbox to try the mail server with.

use mailapi_model::{EmailAddress, Page};
use mailapi_store::AccountFilter;

use crate::{Service, Unavailable};

impl Service {
    /// The address of the newest account, of one that is enabled where there is any; `None` without accounts. The mail
    /// server is not asked, so that whoever examines it has an address to do that with.
    ///
    /// # Errors
    /// [`Unavailable`] when the database is.
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
