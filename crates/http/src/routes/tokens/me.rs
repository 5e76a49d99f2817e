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
/// What may be shown of the token that the request shows. The answer has no `success`.
#[utoipa::path(get, path = "/tokens/me", tag = "tokens", operation_id = "get_current_token",
    responses((status = 200, description = "The token.", body = TokenInfo), Errors))]
pub(crate) async fn me(State(state): State<HttpState>, Caller(caller): Caller) -> Result<Json<TokenInfo>, ApiError> {
    Ok(Json(state.service().current_token(&caller)?.into()))
}
