//! `PUT /tokens/{id}`.

use mailapi_model::{Timestamp, TokenId, TokenKind, TokenRecord, Violations};
use mailapi_store::TokenChange;

use super::TokenError;
use super::create::{check_end, check_name};
use crate::{Caller, Service};

/// What is to change of a token; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateToken {
    /// A new name.
    pub name: Option<String>,
    /// Switches it on or off.
    pub is_active: Option<bool>,
    /// A new end; the inner `None` lets it live for good.
    pub expires_at: Option<Option<Timestamp>>,
}

impl Service {
    /// Changes an API token. Only admins may, and nobody changes a session: it ends by itself or by a log-out.
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
        if change.is_active == Some(false) || change.expires_at.flatten().is_some() {
            self.keep_a_way_in(&token, now).await?;
        }
        let change = TokenChange { name: change.name, is_active: change.is_active, expires_at: change.expires_at };
        if !self.0.store.tokens().update(id, &change).await? {
            return Err(Violations::of("is_active", "must stay false: the token was revoked for good").into());
        }
        self.0.epoch.end();
        tracing::info!(token = %id, by = caller.name(), "token changed");
        self.0.store.tokens().get(id).await?.ok_or(TokenError::NotFound)
    }
}

impl Service {
    /// Refuses to switch off, or to let end, the last API token of an admin while no admin can log in.
    async fn keep_a_way_in(&self, token: &TokenRecord, now: Timestamp) -> Result<(), TokenError> {
        let is_way_in = token.kind == TokenKind::Admin && !token.is_session && token.is_active;
        if !is_way_in || !self.0.settings.admins.is_empty() {
            return Ok(());
        }
        let ways_in = self.0.store.tokens().count_active_admin(now).await?;
        if ways_in > 1 { Ok(()) } else { Err(TokenError::LastAdmin) }
    }
}

fn check(token: &TokenRecord, change: &UpdateToken, now: Timestamp) -> Result<(), Violations> {
    let mut violations = Violations::none();
    if token.is_session {
        violations.add("id", "is a session's; a session cannot be changed");
    }
    if let Some(name) = &change.name {
        check_name(name, &mut violations);
    }
    check_end(change.expires_at.flatten(), now, &mut violations);
    violations.or(Some(()))
}
