//! `DELETE /users/{email}/sessions/{id}`.

use mailapi_model::{EmailAddress, TokenId};

use crate::caller::audit;
use crate::users::UserError;
use crate::{Caller, Service};

impl Service {
    /// Ends a session of a mailbox.
    ///
    /// # Errors
    /// [`UserError::SessionNotFound`] if the mailbox has no such open session; see [`UserError`].
    pub async fn end_session(&self, caller: &Caller, email: &EmailAddress, id: TokenId) -> Result<(), UserError> {
        self.may_manage_app_passwords(caller, email)?;
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(UserError::NotFound);
        }
        if !self.0.store.tokens().end_session_of(email, id).await? {
            return Err(UserError::SessionNotFound);
        }
        self.changed();
        audit!(caller, mailbox = %email, session = %id, "session ended");
        Ok(())
    }
}
