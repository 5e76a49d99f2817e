//! Accounts and their mailboxes.

mod app_passwords;
mod closed;
mod create;
mod delete;
mod directory;
mod directory_probe;
mod disable;
mod enable;
mod get;
mod list;
mod me;
mod newest;
mod preferences;
mod purge;
mod quotas;
mod reset_password;
mod rules;
mod sessions;
mod set_password;
mod update;

use mailapi_model::{Account, Denied, EmailAddress, ManageUsers, Quota, Violations};

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

pub use create::CreateUser;
pub(crate) use create::demand_no_catch_all;
pub use directory::DirectorySynced;
pub(crate) use directory::{DirectoryState, Found, kept_elsewhere};
pub use directory_probe::{DirectoryProbe, ProbedRows, UnknownScheme};
pub use list::UserQuery;
pub use mailapi_backend::Purged;
pub use update::UpdateUser;

/// An account with the usage of its mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The account.
    pub account: Account,
    /// Whether the address is a configured admin.
    pub is_admin: bool,
    /// The usage of the mailbox; `None` if the mail server does not answer.
    pub quota: Option<Quota>,
}

/// The reason why an operation on an account failed.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The caller lacks permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The account does not exist.
    #[error("the user does not exist")]
    NotFound,
    /// An account with this address exists.
    #[error("the user already exists")]
    Exists,
    /// An alias has this address.
    #[error("an alias has this address")]
    IsAlias,
    /// The account has no app password with this id.
    #[error("the app password does not exist")]
    AppPasswordNotFound,
    /// The account has no open session with this id.
    #[error("the session does not exist or has ended")]
    SessionNotFound,
    /// The domain does not exist.
    #[error("the domain does not exist")]
    DomainNotFound,
    /// The request is invalid.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(UserError);

impl Service {
    /// Returns the right to manage this account. Admins' accounts are denied to delegated callers, whether they
    /// exist or not. So are admins' addresses with a tag: such an account would receive mail of the admin.
    ///
    /// # Errors
    /// [`Denied`] without the right.
    pub fn may_manage(&self, caller: &Caller, email: &EmailAddress) -> Result<ManageUsers, Denied> {
        let right = caller.grants.may_manage_users(&email.domain())?;
        let is_admins = |email: &EmailAddress| self.0.settings.admins.contains(email);
        if is_admins(email) || email.without_tag().as_ref().is_some_and(is_admins) {
            caller.grants.admin()?;
        }
        Ok(right)
    }
}
