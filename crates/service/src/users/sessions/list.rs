//! `GET /users/{email}/sessions`.

use mailapi_model::{EmailAddress, Listed, Page, TokenRecord};

use crate::users::UserError;
use crate::{Caller, Service};

impl Service {
    /// Returns the open sessions of a mailbox, newest first, without their values.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn list_sessions(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        page: Page,
    ) -> Result<Listed<TokenRecord>, UserError> {
        self.may_manage_app_passwords(caller, email)?;
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(UserError::NotFound);
        }
        let now = self.0.clock.now();
        let idle_since = now.minus(self.0.settings.session_inactivity);
        let listed = self.0.store.tokens().sessions(email, now, idle_since, page).await?;
        // Uses are stored a few seconds late.
        let used = |session: &TokenRecord| self.0.last_used.of(session.id).max(session.last_used_at);
        Ok(listed.map(|session| TokenRecord { last_used_at: used(&session), ..session }))
    }
}
