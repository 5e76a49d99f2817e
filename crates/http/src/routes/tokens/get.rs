//! `GET /tokens/{id}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{TokenInfo, token_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

/// One token.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenFound {
    /// Always true.
    pub(super) success: bool,
    /// Token information.
    #[serde(flatten)]
    pub(super) info: TokenInfo,
}

documented_errors!(Errors, documented, [AccessDenied, TokenNotFound]);

/// Get a token
///
/// Admins see every token; other callers see those of their own mailbox. The value is not returned.
#[utoipa::path(get, path = "/tokens/{id}", tag = "tokens", operation_id = "get_token",
    params(("id" = i64, Path, description = "Token number.", example = 2)),
    responses((status = 200, description = "The token.", body = TokenFound), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<TokenFound>, ApiError> {
    let id = token_in(&path, &caller)?;
    let info = state.service().get_token(&caller, id).await?.into();
    Ok(Json(TokenFound { success: true, info }))
}
