//! `DELETE /tokens/{id}`.

use mailapi_model::TokenId;

use super::TokenError;
use crate::caller::audit;
use crate::{Caller, Service};

impl Service {
    /// Revokes a token permanently. The last active admin API token is kept while no admin address is configured:
    /// otherwise all admin access would be lost.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn revoke_token(&self, caller: &Caller, id: TokenId) -> Result<(), TokenError> {
        let token = self.get_token(caller, id).await?;
        let tokens = self.0.store.tokens();
        let now = self.0.clock.now();
        if self.must_keep_a_way_in(&token) {
            // A token that is not valid any more was revoked before: nothing to do.
            if !tokens.revoke_but_last_admin(id, now).await? && self.still_works(id, now).await? {
                return Err(TokenError::LastAdmin);
            }
        } else {
            tokens.revoke(id, now).await?;
        }
        self.changed();
        audit!(caller, token = %id, "token revoked");
        Ok(())
    }
}
