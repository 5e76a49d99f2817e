//! `POST /auth/login`.

use mailapi_model::{Credentials, EmailAddress, NewToken, SecretText, TokenKind, TokenRecord, TokenValue, Visitor};
use mailapi_store::NewSession;

use super::CredentialsError;
use super::log_in::Checked;
use crate::Service;

/// A new session.
#[derive(Debug, Clone)]
pub struct Session {
    /// The token value; returned only once.
    pub value: TokenValue,
    /// The stored token: bound to the mailbox, with an expiry.
    pub record: TokenRecord,
}

impl Service {
    /// Logs in with the address and password of a mailbox.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub async fn login(&self, user: &str, password: &SecretText, from: Visitor) -> Result<Session, CredentialsError> {
        let checked = self.check_credentials(user, password, from).await?;
        self.new_session(&checked).await
    }

    /// Creates a session of this mailbox, for an admin an admin session. Rejected if the password was changed or
    /// the mailbox disabled since the check.
    async fn new_session(&self, checked: &Checked) -> Result<Session, CredentialsError> {
        let Credentials { email, name, .. } = &checked.credentials;
        let (value, token) = self.session_token(email, name.clone());
        let (tokens, most) = (self.0.store.tokens(), self.0.settings.tokens_per_mailbox);
        let session = tokens.insert_session(&token, email, checked.verified(), most).await?;
        let NewSession { record, others_ended } = session.ok_or(CredentialsError::Refused)?;
        if others_ended {
            self.0.epoch.end();
        }
        Ok(Session { value, record })
    }

    /// Creates the value of a session token, and the record to store.
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
