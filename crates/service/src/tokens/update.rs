//! `PUT /tokens/{id}`.

use mailapi_model::{Timestamp, TokenId, TokenRecord, Violations};
use mailapi_store::TokenChange;

use super::TokenError;
use super::create::{check_end, check_name};
use crate::caller::audit;
use crate::{Caller, Service};

/// Changes of a token; `None` keeps the value.
#[derive(Debug, Clone, Default)]
pub struct UpdateToken {
    /// A new name.
    pub name: Option<String>,
    /// Enables or disables the token.
    pub is_active: Option<bool>,
    /// A new expiry; the inner `None` removes it.
    pub expires_at: Option<Option<Timestamp>>,
}

impl Service {
    /// Changes an API token. Only admins may; sessions cannot be changed. The last valid admin API token can
    /// neither be disabled nor get an expiry while no admin address is configured.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn update_token(
        &self,
        caller: &Caller,
        id: TokenId,
        change: UpdateToken,
    ) -> Result<TokenRecord, TokenError> {
        caller.grants.admin()?;
        let token = self.0.store.tokens().get(id).await?.ok_or(TokenError::NotFound)?;
        let now = self.0.clock.now();
        check(&token, &change, now)?;
        // Only these changes can end the last admin access.
        let closes = change.is_active == Some(false) || change.expires_at.flatten().is_some();
        let guarded = closes && self.must_keep_a_way_in(&token);
        let change = TokenChange { name: change.name, is_active: change.is_active, expires_at: change.expires_at };
        let tokens = self.0.store.tokens();
        let changed = match guarded {
            true => tokens.update_but_last_admin(id, &change, now).await?,
            false => tokens.update(id, &change, now).await?,
        };
        if !changed {
            if guarded && self.still_works(id, now).await? {
                return Err(TokenError::LastAdmin);
            }
            return Err(Violations::of("is_active", "must stay false; revocation is permanent").into());
        }
        self.changed();
        audit!(caller, token = %id, "token changed");
        self.0.store.tokens().get(id).await?.ok_or(TokenError::NotFound)
    }
}

fn check(token: &TokenRecord, change: &UpdateToken, now: Timestamp) -> Result<(), Violations> {
    let mut violations = Violations::none();
    if token.is_session {
        violations.add("id", "is a session token, which cannot be changed");
    }
    if let Some(name) = &change.name {
        check_name(name, &mut violations);
    }
    check_end(change.expires_at.flatten(), now, &mut violations);
    violations.or(Some(()))
}
