//! The caller proves once more who it is, before a dangerous act.

use std::net::{IpAddr, Ipv4Addr};

use mailapi_model::{LoginProtocol, SecretText, TokenRecord, TokenValue, Visitor};

use super::CredentialsError;
use super::failures::Attempt;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Checks the password of the session's mailbox, or the value of the caller's API token. A wrong one counts as a
    /// failed login: a browser that was left open must not help to guess it.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub async fn confirm(&self, caller: &Caller, secret: &SecretText) -> Result<(), CredentialsError> {
        let token = caller.token.as_deref().ok_or(CredentialsError::Refused)?;
        let address = caller.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let from = Visitor { protocol: LoginProtocol::Http, address };
        match caller.grants.mailbox().filter(|_| token.is_session) {
            Some(mailbox) => self.check_credentials(mailbox.as_str(), secret, from).await.map(drop),
            None => {
                let attempt = Attempt::of_token(token.id, from);
                let checked = self.judged_attempt(&attempt, self.matching_token(token, secret)).await;
                self.reported("", from, checked)
            }
        }
    }

    async fn matching_token(&self, token: &TokenRecord, secret: &SecretText) -> Result<Option<()>, Unavailable> {
        let hash = TokenValue::from_caller(secret.expose()).hash();
        let stored = self.0.store.tokens().by_hash(&hash).await?;
        Ok(stored.filter(|stored| stored.record.id == token.id).map(drop))
    }
}
