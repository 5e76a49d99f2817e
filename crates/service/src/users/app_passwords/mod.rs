//! App passwords: passwords of single mail programs, for IMAP and submission.

mod create;
mod list;
mod revoke;

use mailapi_model::{Denied, EmailAddress, ManageAppPasswords};

use crate::{Caller, Service};

impl Service {
    /// Returns the right to manage the app passwords of this account, and with it its sessions and preferences. Admins'
    /// accounts are denied to delegated callers, whether they exist or not.
    ///
    /// # Errors
    /// [`Denied`] without the right.
    pub fn may_manage_app_passwords(
        &self,
        caller: &Caller,
        email: &EmailAddress,
    ) -> Result<ManageAppPasswords, Denied> {
        let right = caller.grants.may_manage_app_passwords_of(email)?;
        if self.0.settings.admins.contains(email) && caller.grants.mailbox() != Some(email) {
            caller.grants.admin()?;
        }
        Ok(right)
    }
}
