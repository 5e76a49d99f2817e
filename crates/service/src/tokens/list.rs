//! `GET /tokens`.

use mailapi_model::{Listed, Page, TokenRecord};
use mailapi_store::TokenFilter;

use super::TokenError;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Whether an admin API token was ever created, even if it was revoked since. Sessions do not count.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn has_had_admin_token(&self) -> Result<bool, Unavailable> {
        Ok(self.0.store.tokens().has_had_admin().await?)
    }

    /// Returns tokens, newest first: all for an admin, else those of the caller's mailbox.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn list_tokens(&self, caller: &Caller, page: Page) -> Result<Listed<TokenRecord>, TokenError> {
        let email = if caller.grants.admin().is_ok() { None } else { caller.grants.mailbox().cloned() };
        Ok(self.0.store.tokens().list(&TokenFilter { email }, page).await?)
    }
}
