//! `GET /users/{email}`.

use mailapi_model::EmailAddress;

use super::{User, UserError};
use crate::{Caller, Service};

impl Service {
    /// Returns an account.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn get_user(&self, caller: &Caller, email: &EmailAddress) -> Result<User, UserError> {
        self.may_manage(caller, email)?;
        let account = self.0.store.accounts().get(email).await?.ok_or(UserError::NotFound)?;
        Ok(self.with_quota(account).await)
    }
}
