//! `DELETE /aliases/{address}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::AliasManager;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The alias was deleted.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The alias was deleted.", "address": "team@example.test" }))]
pub(crate) struct AliasDeleted {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Address of the deleted alias.
    address: String,
}

documented_errors!(Errors, documented, [AccessDenied, AliasNotFound, ImapError]);

/// Delete an alias
///
/// For admins and for callers with `manage_users` on the domain of the alias. The members and their mail stay.
#[utoipa::path(delete, path = "/aliases/{address}", tag = "aliases", operation_id = "delete_alias",
    params(("address" = String, Path, format = IdnEmail, description = "Address of the alias.", example = "team@example.test")),
    responses((status = 200, description = "The alias was deleted.", body = AliasDeleted), Errors))]
pub(crate) async fn delete(
    State(state): State<HttpState>,
    AliasManager { caller, address }: AliasManager,
) -> Result<Json<AliasDeleted>, ApiError> {
    let (service, shown) = (state.service().clone(), address.shown().to_owned());
    to_the_end(async move { service.delete_alias(&caller, &address).await }).await??;
    Ok(Json(AliasDeleted { success: true, message: "The alias was deleted.", address: shown }))
}
