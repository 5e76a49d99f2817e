//! `POST /tokens`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{TokenKind, Violations};
use mailapi_service::tokens::CreateToken;
use serde::Serialize;
use utoipa::ToSchema;

use super::TokenInfo;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json::{JsonBody, Members};
use crate::state::HttpState;

/// A token to be made.
#[derive(ToSchema)]
#[schema(as = CreateToken, example = json!({ "name": "Newsletter", "token_type": "user", "email": "ann@example.org" }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct CreateTokenBody {
    /// What to call it: 1 to 200 characters.
    name: String,
    /// `user` (the default) or `admin`.
    token_type: Option<String>,
    /// The mailbox of a user token. A mailbox's own caller may leave it out.
    email: Option<String>,
    /// When it is to end by itself.
    expires_at: Option<String>,
}

/// The token that was made.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "token": "mapi_3pQz9aBv…", "id": 7, "token_prefix": "mapi_3pQz9aB", "token_type": "user",
    "email": "ann@example.org", "name": "Newsletter", "is_active": true, "created_at": "2026-11-20T10:15:30.123Z",
    "last_used_at": null, "expires_at": null
}))]
pub(crate) struct TokenCreated {
    /// Always true.
    success: bool,
    /// Its value. It is shown here and never again.
    token: String,
    /// What may be shown later as well.
    #[serde(flatten)]
    info: TokenInfo,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound]);

/// Create a token
///
/// An admin makes tokens of every kind; others make tokens of their own mailbox. The answer is the only place that
/// ever shows the value.
#[utoipa::path(post, path = "/tokens", tag = "tokens", operation_id = "create_token", request_body = CreateTokenBody,
    responses((status = 201, description = "The token was made.", body = TokenCreated), Errors))]
pub(crate) async fn create(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    body: JsonBody,
) -> Result<(StatusCode, Json<TokenCreated>), ApiError> {
    let new = read(body.members)?;
    let (record, value) = state.service().create_token(&caller, new).await?;
    let token = value.expose().to_owned();
    Ok((StatusCode::CREATED, Json(TokenCreated { success: true, token, info: record.into() })))
}

fn read(mut members: Members) -> Result<CreateToken, Violations> {
    let mut violations = Violations::none();
    let name = members.required_text("name", &mut violations);
    let kind = members.parsed("token_type", &mut violations).unwrap_or(TokenKind::User);
    let email = members.parsed("email", &mut violations);
    let expires_at = members.time("expires_at", &mut violations);
    let name = violations.or(name)?;
    Ok(CreateToken { name, kind, email, expires_at })
}
