//! `DELETE /tokens/{id}`.

use mailapi_model::{TokenId, TokenKind};

use super::TokenError;
use crate::{Caller, Service};

impl Service {
    /// Switches a token off for good. The last active admin API token stays while no admin address is configured:
    /// nobody could get in any more.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn revoke_token(&self, caller: &Caller, id: TokenId) -> Result<(), TokenError> {
        let token = self.get_token(caller, id).await?;
        let tokens = self.0.store.tokens();
        let guarded = token.kind == TokenKind::Admin && !token.is_session && self.0.settings.admins.is_empty();
        if guarded {
            let revoked = tokens.revoke_but_last_admin(id, self.0.clock.now()).await?;
            if !revoked && token.is_active {
                return Err(TokenError::LastAdmin);
            }
        } else {
            tokens.revoke(id).await?;
        }
        self.0.epoch.end();
        tracing::info!(token = %id, by = caller.name(), "token revoked");
        Ok(())
    }
}
