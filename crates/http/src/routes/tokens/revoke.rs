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

/// The token no longer works.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The token was revoked.", "id": 7 }))]
pub(crate) struct TokenRevoked {
    /// Always true.
    success: bool,
    /// What happened.
    message: &'static str,
    /// The token's number.
    id: i64,
}

documented_errors!(Errors, documented, [AccessDenied, TokenNotFound, ValidationError]);

/// Revoke a token
///
/// It no longer works from the next request on. An admin revokes every token; others those of their own mailbox. The
/// last active admin token stays while no admin address is configured (`VALIDATION_ERROR`): nobody could get in any
/// more.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "tokens", operation_id = "revoke_token",
    params(("id" = i64, Path, description = "The token's number.", example = 7)),
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
