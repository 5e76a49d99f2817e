//! `GET /tokens/me`.

use axum::extract::State;

use super::TokenInfo;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::state::HttpState;

documented_errors!(Errors, documented, []);

/// Get the current token
///
/// Returns information about the token of the request. The response has no `success` member.
#[utoipa::path(get, path = "/tokens/me", tag = "tokens", operation_id = "get_current_token",
    responses((status = 200, description = "The token.", body = TokenInfo), Errors))]
pub(crate) async fn me(State(state): State<HttpState>, Caller(caller): Caller) -> Result<Json<TokenInfo>, ApiError> {
    Ok(Json(state.service().current_token(&caller)?.into()))
}
