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
use utoipa_axum::router::OpenApiRouter;

use crate::error::{ApiError, ErrorCode};
use crate::path::PathParameters;
use crate::router::api_routes as routes;
use crate::shape::{Moment, TokenType};
use crate::state::HttpState;

/// Every operation of this area.
pub(crate) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(list::list, create::create)).routes(routes!(me::me)).routes(routes!(
        get::get,
        update::update,
        revoke::revoke
    ))
}

/// What may be shown of a token.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": 7, "token_prefix": "mapi_3pQz9aB", "token_type": "user", "email": "ann@example.org", "name": "Newsletter",
    "is_active": true, "created_at": "2026-11-20T10:15:30.123Z", "last_used_at": "2026-11-20T11:00:00.000Z",
    "expires_at": null
}))]
pub(crate) struct TokenInfo {
    /// Its number.
    id: i64,
    /// The leading characters of its value, by which its owner recognises it.
    token_prefix: String,
    /// What the token reaches.
    #[schema(value_type = TokenType)]
    token_type: &'static str,
    /// The mailbox that it is bound to; null for an admin token.
    #[schema(required)]
    email: Option<String>,
    /// What its owner calls it.
    name: String,
    /// False once it was revoked or switched off.
    is_active: bool,
    /// When it was made.
    created_at: Moment,
    /// When it was last used; null when it never was.
    #[schema(required)]
    last_used_at: Option<Moment>,
    /// When it ends by itself; null when it does not.
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

/// The token in the path. What is no number names none; only an admin is told so.
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
