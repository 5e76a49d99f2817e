//! `GET /tokens/me`.

use mailapi_model::TokenRecord;

use super::TokenError;
use crate::{Caller, Service};

impl Service {
    /// Returns the caller's token.
    ///
    /// # Errors
    /// [`TokenError::NotFound`] for the operator at the command line, who has no token.
    pub fn current_token(&self, caller: &Caller) -> Result<TokenRecord, TokenError> {
        caller.used_token().ok_or(TokenError::NotFound)
    }
}
