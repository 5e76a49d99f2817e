//! `GET /tokens`.

use mailapi_model::{Listed, Page, TokenRecord};
use mailapi_store::TokenFilter;

use super::TokenError;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Whether there ever was an admin token, whatever became of it. Sessions are none.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn has_had_admin_token(&self) -> Result<bool, Unavailable> {
        Ok(self.0.store.tokens().has_had_admin().await?)
    }

    /// Tokens, newest first: an admin sees all, others those of their own mailbox.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn list_tokens(&self, caller: &Caller, page: Page) -> Result<Listed<TokenRecord>, TokenError> {
        let email = if caller.grants.admin().is_ok() { None } else { caller.grants.mailbox().cloned() };
        Ok(self.0.store.tokens().list(&TokenFilter { email }, page).await?)
    }
}
