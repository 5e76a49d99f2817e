//! Aliases.

mod create;
mod delete;
mod get;
mod list;
mod update;

use mailapi_model::{Denied, EmailAddress, ManageUsers, MembersRule, SendersRule, Violations};

use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

pub use create::CreateAlias;
pub use list::AliasQuery;

/// The reason why an operation on an alias failed.
#[derive(Debug, thiserror::Error)]
pub enum AliasError {
    /// The caller lacks permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The alias does not exist.
    #[error("the alias does not exist")]
    NotFound,
    /// An alias or a user has the address.
    #[error("the address already belongs to an alias or a user")]
    Exists,
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

store_errors_are_unavailable!(AliasError);

impl Service {
    /// Returns the right to manage the alias with this address. Those of admins' addresses are denied to delegated
    /// callers: the alias would receive an admin's mail.
    ///
    /// # Errors
    /// [`Denied`] without the right.
    pub fn may_manage_alias(&self, caller: &Caller, address: &EmailAddress) -> Result<ManageUsers, Denied> {
        self.may_manage(caller, address)
    }

    /// Returns the users who may send from an alias, each once.
    async fn checked_senders(
        &self,
        alias: &EmailAddress,
        senders: &[EmailAddress],
    ) -> Result<Vec<EmailAddress>, AliasError> {
        let senders = SendersRule::check(alias, senders)?;
        let mut violations = Violations::none();
        for (place, sender) in senders.iter().enumerate() {
            // A later user with the address would get the right.
            if self.account_since(sender).await?.is_none() {
                violations.add(format!("senders[{place}]"), SendersRule::UNKNOWN);
            }
        }
        Ok(violations.or(Some(senders))?)
    }
}

/// The members lead back through other aliases.
fn leads_back() -> AliasError {
    Violations::of("members", MembersRule::LOOP).into()
}

/// With an external user database, the mail server has its own aliases, and does not read these.
fn kept_elsewhere() -> AliasError {
    Violations::of("address", "must be created in the external user database, which has the users").into()
}
