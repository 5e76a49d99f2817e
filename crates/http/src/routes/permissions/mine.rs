//! `GET /permissions/mine`.

use axum::extract::State;

use super::list::PermissionsListed;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query};
use crate::state::HttpState;

documented_errors!(Errors, documented, [ValidationError]);

/// List your own permissions
///
/// Returns the permissions granted to the caller, newest first. Admins need none.
#[utoipa::path(get, path = "/permissions/mine", tag = "permissions", operation_id = "list_own_permissions",
    params(PageParameters),
    responses((status = 200, description = "A page of permissions.", body = PermissionsListed), Errors))]
pub(crate) async fn mine(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<PageParameters>,
) -> Result<Json<PermissionsListed>, ApiError> {
    let page = query.read()?;
    let listed = state.service().own_permissions(&caller, page).await?;
    Ok(Json(PermissionsListed::new(listed, page)))
}
