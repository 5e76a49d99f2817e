//! `GET /permissions`.

use axum::extract::State;
use mailapi_model::{DomainName, EmailAddress, Listed, Page, PermissionRecord};
use mailapi_service::permissions::PermissionQuery;
use serde::Serialize;
use utoipa::ToSchema;

use super::PermissionBody;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query, query_parameters};
use crate::state::HttpState;

/// A page of permissions.
#[derive(Serialize, ToSchema)]
pub(crate) struct PermissionsListed {
    /// Always true.
    success: bool,
    /// Total number of permissions.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Permissions, newest first.
    permissions: Vec<PermissionBody>,
}

impl PermissionsListed {
    pub(super) fn new(listed: Listed<PermissionRecord>, page: Page) -> Self {
        Self {
            success: true,
            total: listed.total,
            limit: page.limit(),
            offset: page.offset(),
            permissions: listed.items.into_iter().map(Into::into).collect(),
        }
    }
}

query_parameters! {
    /// Filters of the list.
    pub(crate) struct ListPermissions {
        /// Only permissions of this user.
        email: Option<EmailAddress>;
        /// Only permissions on this domain.
        domain: Option<DomainName>;
        /// Page of the list.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// List permissions
///
/// For admins. Returns all granted permissions, newest first.
#[utoipa::path(get, path = "/permissions", tag = "permissions", operation_id = "list_permissions",
    params(ListPermissions),
    responses((status = 200, description = "A page of permissions.", body = PermissionsListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    query: Query<ListPermissions>,
) -> Result<Json<PermissionsListed>, ApiError> {
    let ListPermissions { email, domain, page } = query.read()?;
    let listed = state.service().list_permissions(&caller, PermissionQuery { email, domain }, page).await?;
    Ok(Json(PermissionsListed::new(listed, page)))
}
