//! `GET /tokens/{id}`.

use mailapi_model::{Denied, TokenId, TokenRecord};

use super::TokenError;
use crate::{Caller, Service};

impl Service {
    /// Returns a token.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn get_token(&self, caller: &Caller, id: TokenId) -> Result<TokenRecord, TokenError> {
        let record = self.0.store.tokens().get(id).await?;
        let is_admin = caller.grants.admin().is_ok();
        match record {
            Some(record) if is_admin => Ok(record),
            None if is_admin => Err(TokenError::NotFound),
            Some(record) => match &record.email {
                Some(email) => caller.grants.may_manage_tokens_of(email).map(|_| record.clone()).map_err(Into::into),
                None => Err(Denied.into()),
            },
            // The same error as for tokens of others: only an admin may learn which identifiers exist.
            None => Err(Denied.into()),
        }
    }
}
