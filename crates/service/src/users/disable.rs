//! `POST /users/{email}/disable`.

use mailapi_model::EmailAddress;

use super::{User, UserError};
use crate::{Caller, Service};

impl Service {
    /// Keeps an account from logging in and from using its tokens, and ends its sessions for good. Its mail goes on
    /// to be delivered.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn disable_user(&self, caller: &Caller, email: &EmailAddress) -> Result<User, UserError> {
        self.set_active(caller, email, false).await
    }
}
