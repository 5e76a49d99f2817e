//! `POST /users/{email}/reset-password`.

use mailapi_model::{EmailAddress, Secret, SecretText, TokenValue};

use super::UserError;
use crate::{Caller, Service};

/// Length of a generated password: 24 characters of an alphabet of 64 contain 144 bits.
const MADE_LENGTH: usize = 24;

impl Service {
    /// Sets a new password and ends all sessions of the mailbox. Without a given password, generates a strong one
    /// and returns it, only this once.
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
