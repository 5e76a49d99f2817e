//! `POST /tokens`.

use mailapi_model::{EmailAddress, NewToken, OneLine, Timestamp, TokenKind, TokenRecord, TokenValue, Violations};
use mailapi_store::StoreError;

use super::TokenError;
use crate::caller::audit;
use crate::{Caller, Service};

/// A request for an API token.
#[derive(Debug, Clone)]
pub struct CreateToken {
    /// The display name.
    pub name: String,
    /// The kind.
    pub kind: TokenKind,
    /// The mailbox of a user token; defaults to the caller's own.
    pub email: Option<EmailAddress>,
    /// The expiry, if any.
    pub expires_at: Option<Timestamp>,
}

impl CreateToken {
    /// Checks the request. `owner` is the mailbox of the token.
    fn check(&self, owner: Option<&EmailAddress>, now: Timestamp) -> Result<(), Violations> {
        let mut violations = Violations::none();
        check_name(&self.name, &mut violations);
        match (self.kind, owner) {
            (TokenKind::Admin, _) if self.email.is_some() => {
                violations.add("email", "must not be given for an admin token");
            }
            (TokenKind::User, None) => violations.add("email", "is required for a user token"),
            _ => {}
        }
        check_end(self.expires_at, now, &mut violations);
        violations.or(Some(()))
    }
}

pub(super) fn check_name(name: &str, violations: &mut Violations) {
    if name.trim().is_empty() {
        violations.add("name", "must not be empty");
    } else {
        violations.merge(OneLine::parse("name", name));
    }
}

pub(super) fn check_end(end: Option<Timestamp>, now: Timestamp, violations: &mut Violations) {
    if end.is_some_and(|end| end <= now) {
        violations.add("expires_at", "must be in the future");
    }
}

impl Service {
    /// Creates a token. Its value is returned only here and not stored.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn create_token(
        &self,
        caller: &Caller,
        new: CreateToken,
    ) -> Result<(TokenRecord, TokenValue), TokenError> {
        let value = TokenValue::random_api(self.0.entropy.as_ref());
        let record = self.create_token_with(caller, new, &value).await?;
        Ok((record, value))
    }

    /// Creates a token with a random value of the caller.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn create_token_with(
        &self,
        caller: &Caller,
        new: CreateToken,
        value: &TokenValue,
    ) -> Result<TokenRecord, TokenError> {
        let email = new.email.clone().or_else(|| caller.grants.mailbox().cloned());
        let email = match (new.kind, email) {
            (TokenKind::Admin, _) => caller.grants.admin().map(|_| None)?,
            (TokenKind::User, Some(email)) => Some(caller.grants.may_manage_tokens_of(&email)?.address().clone()),
            // Only an admin has no mailbox. The check below then reports the missing one.
            (TokenKind::User, None) => caller.grants.admin().map(|_| None)?,
        };
        let now = self.0.clock.now();
        new.check(email.as_ref(), now)?;
        if let Some(email) = &email
            && self.0.store.accounts().get(email).await?.is_none()
        {
            return Err(TokenError::UserNotFound);
        }
        let token = NewToken {
            hash: value.hash(),
            prefix: value.prefix(),
            kind: new.kind,
            email,
            name: new.name,
            is_session: false,
            created_at: now,
            expires_at: new.expires_at,
        };
        let most = self.0.settings.tokens_per_mailbox;
        let record = self.0.store.tokens().insert(&token, most).await.map_err(|error| match error {
            error if error.is_guard_failed() => TokenError::TooMany { most },
            // The account was deleted meanwhile.
            StoreError::Reference => TokenError::UserNotFound,
            error => error.into(),
        })?;
        self.0.events.wake();
        audit!(caller, token = %record.id, kind = record.kind.as_str(), "token created");
        Ok(record)
    }
}
