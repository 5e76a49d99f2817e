//! Permissions that admins grant.

mod bulk;
mod grant;
mod list;
mod mine;
mod revoke;

use mailapi_model::{PermissionId, PermissionRecord};
use mailapi_service::permissions::PermissionError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ErrorCode};
use crate::path::PathParameters;
use crate::router::{Routes, api_routes as routes};
use crate::shape::{Moment, PermissionName};

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list::list, grant::grant))
        .routes(routes!(bulk::bulk))
        .routes(routes!(mine::mine))
        .routes(routes!(revoke::revoke))
}

/// A permission of a user on one domain.
#[derive(Serialize, ToSchema)]
#[schema(as = GrantedPermission, example = json!({
        "id": 1, "email": "alice@example.test", "permission": "manage_users", "domain": "example.test",
        "granted_by": "admin@example.test", "granted_at": "2026-11-20T10:15:30.123Z"
}))]
struct PermissionBody {
    /// Permission number.
    id: i64,
    /// Address of the user.
    email: String,
    /// Permission name.
    #[schema(value_type = PermissionName)]
    permission: &'static str,
    /// Domain name.
    domain: String,
    /// Granted by: the address of an admin, the name of an admin token, or `signup`.
    granted_by: String,
    /// Time of the grant.
    granted_at: Moment,
}

impl From<PermissionRecord> for PermissionBody {
    fn from(record: PermissionRecord) -> Self {
        Self {
            id: record.id.0,
            email: record.email.shown().to_owned(),
            permission: record.permission.as_str(),
            domain: record.domain.shown().to_owned(),
            granted_by: record.granted_by,
            granted_at: record.granted_at.into(),
        }
    }
}

/// Permission in the path. An invalid number is an unknown permission.
fn permission_in(path: &PathParameters) -> Result<PermissionId, ErrorCode> {
    path.digits("id").map(PermissionId).ok_or(ErrorCode::PermissionNotFound)
}

impl From<PermissionError> for ApiError {
    fn from(error: PermissionError) -> Self {
        match error {
            PermissionError::Denied(denied) => denied.into(),
            PermissionError::NotFound => ErrorCode::PermissionNotFound.into(),
            PermissionError::Exists => ErrorCode::PermissionExists.into(),
            PermissionError::UserNotFound => ErrorCode::UserNotFound.into(),
            PermissionError::DomainNotFound => ErrorCode::DomainNotFound.into(),
            PermissionError::Invalid(violations) => violations.into(),
            PermissionError::Unavailable(error) => error.into(),
        }
    }
}
