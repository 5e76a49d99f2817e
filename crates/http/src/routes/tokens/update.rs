//! `PUT /tokens/{id}`.

use axum::extract::State;
use mailapi_service::tokens::UpdateToken;

use super::get::TokenFound;
use super::token_in;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::path::PathParameters;
use crate::request_body::{Change, request_body};
use crate::routes::to_the_end;
use crate::shape::{DateOrTime, TokenName};
use crate::state::HttpState;

request_body! {
    /// Changes to a token. Absent members stay unchanged.
    pub(crate) struct UpdateTokenBody as "UpdateToken" {
        /// Display name: 1 to 200 characters.
        name: Option<TokenName>,
        /// Whether the token is active.
        is_active: Option<bool>,
        /// Expiry time in the future: a date-time such as `2026-11-20T12:15:30+02:00` (any offset, UTC by default), or a
        /// date such as `2026-11-20`. Null means never.
        expires_at: Change<DateOrTime>,
    }
    example { "name": "Old newsletter", "is_active": false, "expires_at": null }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, TokenNotFound]);

/// Update a token
///
/// For admins. Session tokens cannot be updated. The last active admin token cannot be disabled or expired unless
/// `auth.admins` is set (`VALIDATION_ERROR`). A revoked token stays revoked.
#[utoipa::path(put, path = "/tokens/{id}", tag = "tokens", operation_id = "update_token", request_body = UpdateTokenBody,
    params(("id" = i64, Path, description = "Token number.", example = 2)),
    responses((status = 200, description = "The updated token.", body = TokenFound), Errors))]
pub(crate) async fn update(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    body: JsonBody<UpdateTokenBody>,
) -> Result<Json<TokenFound>, ApiError> {
    let id = token_in(&path, &caller)?;
    let UpdateTokenBody { name, is_active, expires_at } = body.read()?;
    let change = UpdateToken { name, is_active, expires_at };
    let service = state.service().clone();
    let token = to_the_end(async move { service.update_token(&caller, id, change).await }).await??;
    Ok(Json(TokenFound { success: true, info: token.into() }))
}
