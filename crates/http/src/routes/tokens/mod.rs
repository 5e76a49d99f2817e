//! API tokens.

pub(crate) mod create;
mod get;
mod list;
mod me;
mod revoke;
mod update;

use mailapi_model::{TokenId, TokenRecord, Violations};
use mailapi_service::Caller;
use mailapi_service::tokens::TokenError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ErrorCode};
use crate::path::PathParameters;
use crate::router::{Routes, api_routes as routes};
use crate::shape::{Moment, TokenType};

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new().routes(routes!(list::list, create::create)).routes(routes!(me::me)).routes(routes!(
        get::get,
        update::update,
        revoke::revoke
    ))
}

/// Token information, without the value.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
        "id": 2, "token_prefix": "mapi_3pQz9aB", "token_type": "user", "email": "alice@example.test", "name": "Newsletter",
    "is_active": true, "created_at": "2026-11-20T10:15:30.123Z", "last_used_at": "2026-11-20T11:00:00.000Z",
    "expires_at": null
}))]
pub(crate) struct TokenInfo {
    /// Token number.
    id: i64,
    /// First characters of the value, to recognise the token.
    token_prefix: String,
    /// Token type.
    #[schema(value_type = TokenType)]
    token_type: &'static str,
    /// Mailbox that the token is bound to; null for an admin token.
    #[schema(required)]
    email: Option<String>,
    /// Display name.
    name: String,
    /// False if the token was revoked or disabled.
    is_active: bool,
    /// Creation time.
    created_at: Moment,
    /// Time of the latest use; null if the token was never used.
    #[schema(required)]
    last_used_at: Option<Moment>,
    /// Expiry time; null if the token never expires.
    #[schema(required)]
    expires_at: Option<Moment>,
}

impl From<TokenRecord> for TokenInfo {
    fn from(token: TokenRecord) -> Self {
        Self {
            id: token.id.0,
            token_prefix: token.prefix,
            token_type: token.kind.as_str(),
            email: token.email.map(|email| email.shown().to_owned()),
            name: token.name,
            is_active: token.is_active,
            created_at: token.created_at.into(),
            last_used_at: token.last_used_at.map(Moment),
            expires_at: token.expires_at.map(Moment),
        }
    }
}

/// Token in the path. An invalid number is an unknown token, which only an admin may learn.
fn token_in(path: &PathParameters, caller: &Caller) -> Result<TokenId, ApiError> {
    match path.digits("id") {
        Some(id) => Ok(TokenId(id)),
        None => Err(caller.grants.admin().map_or_else(Into::into, |_| ErrorCode::TokenNotFound.into())),
    }
}

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Denied(denied) => denied.into(),
            TokenError::NotFound => ErrorCode::TokenNotFound.into(),
            TokenError::UserNotFound => ErrorCode::UserNotFound.into(),
            TokenError::LastAdmin => Violations::of("id", error.to_string()).into(),
            TokenError::TooMany { .. } => Violations::of("email", error.to_string()).into(),
            TokenError::Invalid(violations) => violations.into(),
            TokenError::Unavailable(error) => error.into(),
        }
    }
}
