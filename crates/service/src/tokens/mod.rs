//! API tokens.

mod create;
mod get;
mod list;
mod me;
mod revoke;
mod update;

use mailapi_model::{Denied, Timestamp, TokenId, TokenKind, TokenRecord, Violations};

use crate::error::store_errors_are_unavailable;
use crate::{Service, Unavailable};

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
    /// The mailbox has the maximum number of tokens.
    #[error("the mailbox has {most} tokens already; revoke an unused one")]
    TooMany {
        /// That maximum.
        most: u32,
    },
    /// The request breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(TokenError);

impl Service {
    /// Whether this may be the last way in for an admin: no admin can log in, and it is an API token of one.
    fn must_keep_a_way_in(&self, token: &TokenRecord) -> bool {
        token.kind == TokenKind::Admin && !token.is_session && self.0.settings.admins.is_empty()
    }

    /// Whether the token opens anything at `now`.
    async fn still_works(&self, id: TokenId, now: Timestamp) -> Result<bool, Unavailable> {
        let token = self.0.store.tokens().get(id).await?;
        Ok(token.is_some_and(|token| token.is_active && token.expires_at.is_none_or(|end| end > now)))
    }
}
