//! API tokens.

mod create;
mod get;
mod list;
mod me;
mod revoke;
mod update;

use mailapi_model::{Denied, Violations};

use crate::Unavailable;
use crate::error::store_errors_are_unavailable;

pub use create::CreateToken;
pub use update::UpdateToken;

/// Why nothing was done with a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The caller may not. A caller without admin is told this of every token that is not its own, known or not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// There is none of that number.
    #[error("the token does not exist")]
    NotFound,
    /// The mailbox that it is to be bound to does not exist.
    #[error("the user does not exist")]
    UserNotFound,
    /// It is the last way in for an admin.
    #[error("it is the last active admin token, and no admin address is configured")]
    LastAdmin,
    /// The request breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(TokenError);
