//! `GET /users/me`.

use super::{User, UserError};
use crate::{Caller, Service};

impl Service {
    /// Returns the caller's own account.
    ///
    /// # Errors
    /// [`UserError::NotFound`] for an admin's API token, which has no account; see [`UserError`].
    pub async fn current_user(&self, caller: &Caller) -> Result<User, UserError> {
        let mailbox = caller.grants.mailbox().ok_or(UserError::NotFound)?;
        let account = self.0.store.accounts().get(mailbox).await?.ok_or(UserError::NotFound)?;
        Ok(self.with_quota(account).await)
    }
}
