//! `DELETE /tokens/{id}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::token_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The token was revoked.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The token was revoked.", "id": 2 }))]
pub(crate) struct TokenRevoked {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Token number.
    id: i64,
}

documented_errors!(Errors, documented, [AccessDenied, TokenNotFound, ValidationError]);

/// Revoke a token
///
/// Revokes a token permanently; it is invalid from the next request on. Admins revoke any token; other callers revoke
/// those of their own mailbox. The last active admin token cannot be revoked unless `auth.admins` is set
/// (`VALIDATION_ERROR`).
#[utoipa::path(delete, path = "/tokens/{id}", tag = "tokens", operation_id = "revoke_token",
    params(("id" = i64, Path, description = "Token number.", example = 2)),
    responses((status = 200, description = "The token was revoked.", body = TokenRevoked), Errors))]
pub(crate) async fn revoke(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<TokenRevoked>, ApiError> {
    let id = token_in(&path, &caller)?;
    let service = state.service().clone();
    to_the_end(async move { service.revoke_token(&caller, id).await }).await??;
    Ok(Json(TokenRevoked { success: true, message: "The token was revoked.", id: id.0 }))
}
