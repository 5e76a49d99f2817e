//! Accounts and their mailboxes.

mod closed;
mod create;
mod delete;
mod directory;
mod disable;
mod enable;
mod get;
mod list;
mod me;
mod newest;
mod purge;
mod quotas;
mod reset_password;
mod set_password;
mod update;

use mailapi_model::{Account, Denied, EmailAddress, ManageUsers, Quota, Violations};

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

pub use create::CreateUser;
pub use directory::{DirectoryProbe, DirectorySynced, UnknownScheme};
pub(crate) use directory::{Found, kept_elsewhere};
pub use list::UserQuery;
pub use mailapi_backend::Purged;
pub use update::UpdateUser;

/// An account with what the mail server knows of its mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The account.
    pub account: Account,
    /// Whether it is on the configured list of admins.
    pub is_admin: bool,
    /// What its mailbox holds; `None` when the mail server does not tell at the moment.
    pub quota: Option<Quota>,
}

/// Why nothing was done with an account.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The caller may not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// There is none of that address.
    #[error("the user does not exist")]
    NotFound,
    /// There is one of that address already.
    #[error("the user exists already")]
    Exists,
    /// There is no such domain.
    #[error("the domain does not exist")]
    DomainNotFound,
    /// The request breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(UserError);

impl Service {
    /// The right to manage this account. To delegated callers admins' accounts are out of reach, whether they exist
    /// or not.
    ///
    /// # Errors
    /// [`Denied`] without it.
    pub fn may_manage(&self, caller: &Caller, email: &EmailAddress) -> Result<ManageUsers, Denied> {
        let right = caller.grants.may_manage_users(&email.domain())?;
        if self.0.settings.admins.contains(email) {
            caller.grants.admin()?;
        }
        Ok(right)
    }
}
