//! `POST /auth/login`.

use mailapi_model::{EmailAddress, NewToken, SecretText, TokenKind, TokenRecord, TokenValue};

use super::CredentialsError;
use crate::{Service, Unavailable};

/// A log-in that holds for a while.
#[derive(Debug, Clone)]
pub struct Session {
    /// What the caller shows from now on; it is told this once.
    pub value: TokenValue,
    /// What is known of the session's token; bound to the mailbox, and with a time at which it ends.
    pub record: TokenRecord,
}

impl Service {
    /// Logs in with a mailbox's address and password.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub async fn login(&self, user: &str, password: &SecretText) -> Result<Session, CredentialsError> {
        let credentials = self.check_credentials(user, password).await?;
        Ok(self.new_session(&credentials.email, credentials.name).await?)
    }

    /// A new session of this mailbox; of an admin when the mailbox is one's.
    pub(crate) async fn new_session(&self, email: &EmailAddress, name: String) -> Result<Session, Unavailable> {
        let (value, token) = self.session_token(email, name);
        let id = self.0.store.tokens().insert(&token).await?;
        let record = self.0.store.tokens().get(id).await?;
        let record = record.ok_or_else(|| Unavailable::Unforeseen("a new session is gone".to_owned()))?;
        Ok(Session { value, record })
    }

    /// What is to be stored of a new session, and what its caller is to show.
    pub(crate) fn session_token(&self, email: &EmailAddress, name: String) -> (TokenValue, NewToken) {
        let now = self.0.clock.now();
        let is_admin = self.0.settings.admins.contains(email);
        let value = TokenValue::random_session(self.0.entropy.as_ref());
        let token = NewToken {
            hash: value.hash(),
            prefix: value.prefix(),
            kind: if is_admin { TokenKind::Admin } else { TokenKind::User },
            email: Some(email.clone()),
            name,
            is_session: true,
            created_at: now,
            expires_at: Some(now.plus(self.0.settings.session_lifetime)),
        };
        (value, token)
    }
}
