//! `POST /users/{email}/disable`.

use mailapi_model::EmailAddress;

use super::{User, UserError};
use crate::{Caller, Service};

impl Service {
    /// Disables login and all tokens of an account, and ends its sessions permanently. Its mail is still
    /// delivered.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn disable_user(&self, caller: &Caller, email: &EmailAddress) -> Result<User, UserError> {
        self.set_active(caller, email, false).await
    }
}
