//! `GET /aliases/{address}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{AliasManager, AliasRecord};
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::state::HttpState;

/// One alias.
#[derive(Serialize, ToSchema)]
pub(crate) struct AliasFound {
    /// Always true.
    pub(super) success: bool,
    /// Alias record.
    pub(super) alias: AliasRecord,
}

documented_errors!(Errors, documented, [AccessDenied, AliasNotFound]);

/// Get an alias
///
/// For admins and for callers with `manage_users` on the domain of the alias.
#[utoipa::path(get, path = "/aliases/{address}", tag = "aliases", operation_id = "get_alias",
    params(("address" = String, Path, format = IdnEmail, description = "Address of the alias.", example = "team@example.test")),
    responses((status = 200, description = "The alias.", body = AliasFound), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    AliasManager { caller, address }: AliasManager,
) -> Result<Json<AliasFound>, ApiError> {
    let alias = state.service().get_alias(&caller, &address).await?;
    Ok(Json(AliasFound { success: true, alias: alias.into() }))
}
