//! `GET /users/{email}/app-passwords`.

use mailapi_model::{AppPassword, EmailAddress, Listed, Page};

use crate::users::UserError;
use crate::{Caller, Service};

impl Service {
    /// Returns the app passwords of a mailbox, newest first, without their values.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn list_app_passwords(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        page: Page,
    ) -> Result<Listed<AppPassword>, UserError> {
        self.may_manage_app_passwords(caller, email)?;
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(UserError::NotFound);
        }
        Ok(self.0.store.app_passwords().list(email, page).await?)
    }
}
