//! `POST /tokens`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{EmailAddress, TokenKind, TokenRecord, TokenValue};
use mailapi_service::tokens::CreateToken;
use serde::Serialize;
use utoipa::ToSchema;

use super::TokenInfo;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::shape::{DateOrTime, TokenName, TokenType};
use crate::state::HttpState;

request_body! {
    /// A token to create: a user token, or an admin token, which has no `email`.
    pub(crate) struct CreateTokenBody as "CreateToken" {
        /// Display name: 1 to 200 characters.
        name: TokenName,
        /// `admin`: full access; `user`: the mailbox that the token is bound to. `user` by default.
        token_type: Option<TokenType>,
        /// Mailbox that a user token is bound to; the caller's own by default.
        email: Option<EmailAddress>,
        /// Expiry time in the future: a date-time such as `2026-11-20T12:15:30+02:00` (any offset, UTC by default), or a
        /// date such as `2026-11-20`. Never by default.
        expires_at: Option<DateOrTime>,
    }
    example { "name": "Newsletter", "token_type": "user", "email": "alice@example.test" }
}

/// The new token with its value.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
        "success": true, "token": "mapi_3pQz9aBv…", "id": 2, "token_prefix": "mapi_3pQz9aB", "token_type": "user",
        "email": "alice@example.test", "name": "Newsletter", "is_active": true, "created_at": "2026-11-20T10:15:30.123Z",
    "last_used_at": null, "expires_at": null
}))]
pub(crate) struct TokenCreated {
    /// Always true.
    success: bool,
    /// Token value. It is returned only once.
    token: String,
    /// Token information.
    #[serde(flatten)]
    info: TokenInfo,
}

impl TokenCreated {
    /// Response for a new token.
    pub(crate) fn new(record: TokenRecord, value: &TokenValue) -> Self {
        Self { success: true, token: value.expose().to_owned(), info: record.into() }
    }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound]);

/// Create a token
///
/// Admins create tokens of any type; other callers create tokens for their own mailbox. Store the value: it is returned
/// only once.
#[utoipa::path(post, path = "/tokens", tag = "tokens", operation_id = "create_token", request_body = CreateTokenBody,
    responses((status = 201, description = "The token was created.", body = TokenCreated), Errors))]
pub(crate) async fn create(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    body: JsonBody<CreateTokenBody>,
) -> Result<(StatusCode, Json<TokenCreated>), ApiError> {
    let CreateTokenBody { name, token_type, email, expires_at } = body.read()?;
    let new = CreateToken { name, kind: token_type.unwrap_or(TokenKind::User), email, expires_at };
    let (record, value) = state.service().create_token(&caller, new).await?;
    Ok((StatusCode::CREATED, Json(TokenCreated::new(record, &value))))
}
