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

/// The reason why an operation on a token failed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The caller lacks permission. Without admin rights, this is the error for all other tokens, existing or not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The token does not exist.
    #[error("the token does not exist")]
    NotFound,
    /// The mailbox of the token does not exist.
    #[error("the user does not exist")]
    UserNotFound,
    /// The last active admin token must stay.
    #[error("is the last active admin token, and `auth.admins` is not set")]
    LastAdmin,
    /// The mailbox has the maximum number of tokens.
    #[error("the mailbox has {most} tokens already; revoke an unused one")]
    TooMany {
        /// The maximum.
        most: u32,
    },
    /// The request is invalid.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(TokenError);

impl Service {
    /// Whether the token may be the last admin access: it is an admin API token, and no admin address is
    /// configured.
    fn must_keep_a_way_in(&self, token: &TokenRecord) -> bool {
        token.kind == TokenKind::Admin && !token.is_session && self.0.settings.admins.is_empty()
    }

    /// Whether the token is valid at `now`.
    async fn still_works(&self, id: TokenId, now: Timestamp) -> Result<bool, Unavailable> {
        let token = self.0.store.tokens().get(id).await?;
        Ok(token.is_some_and(|token| token.is_active && token.expires_at.is_none_or(|end| end > now)))
    }
}
