//! Sessions of a mailbox at the API and the console.

mod end;
mod list;

use mailapi_model::{Denied, EmailAddress, ManageAppPasswords};

use crate::{Caller, Service};

impl Service {
    /// Returns the right to see and end the sessions of this account. Callers who may revoke its app passwords may end
    /// its sessions.
    ///
    /// # Errors
    /// [`Denied`] without the right.
    pub fn may_manage_sessions(&self, caller: &Caller, email: &EmailAddress) -> Result<ManageAppPasswords, Denied> {
        self.may_manage_app_passwords(caller, email)
    }
}
