//! `POST /users/{email}/reset-password`.

use mailapi_model::{EmailAddress, Secret, SecretText, TokenValue};

use super::UserError;
use crate::{Caller, Service};

/// Random characters of a password that is made here: 24 of 64 kinds hold 144 bits.
const MADE_LENGTH: usize = 24;

impl Service {
    /// Sets a new password and ends every session of the mailbox. When the caller brings none, a strong one is made
    /// and answered; it is told this once.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn reset_password(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        password: Option<SecretText>,
    ) -> Result<Option<SecretText>, UserError> {
        if let Some(password) = password {
            self.set_password(caller, email, password).await?;
            return Ok(None);
        }
        let made = self.made_password();
        self.set_password(caller, email, made.clone()).await?;
        Ok(Some(made))
    }

    fn made_password(&self) -> SecretText {
        let value = TokenValue::random_api(self.0.entropy.as_ref());
        let random = value.expose().chars().skip(TokenValue::API_PREFIX.len());
        Secret::new(random.take(MADE_LENGTH).collect())
    }
}
