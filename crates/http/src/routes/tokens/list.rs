//! `GET /tokens`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::TokenInfo;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query};
use crate::state::HttpState;

/// A page of tokens.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokensListed {
    /// Always true.
    success: bool,
    /// Total number of tokens.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Tokens, newest first.
    tokens: Vec<TokenInfo>,
}

documented_errors!(Errors, documented, [ValidationError]);

/// List tokens
///
/// Returns tokens, newest first, including revoked tokens. Admins see all tokens; other callers see those of their own
/// mailbox. Values are not returned.
#[utoipa::path(get, path = "/tokens", tag = "tokens", operation_id = "list_tokens", params(PageParameters),
    responses((status = 200, description = "A page of tokens.", body = TokensListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<PageParameters>,
) -> Result<Json<TokensListed>, ApiError> {
    let page = query.read()?;
    let listed = state.service().list_tokens(&caller, page).await?;
    Ok(Json(TokensListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        tokens: listed.items.into_iter().map(Into::into).collect(),
    }))
}
