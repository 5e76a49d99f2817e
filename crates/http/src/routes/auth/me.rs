//! `GET /auth/me`.

use axum::extract::State;
use mailapi_model::{DomainName, Permission};
use mailapi_service::auth::Me;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::shape::{Moment, PermissionName, TokenType};
use crate::state::HttpState;

/// The caller.
#[derive(Serialize, ToSchema)]
#[schema(as = Me, example = json!({
        "success": true, "email": "alice@example.test", "name": "Alice Lee", "token_type": "user", "is_session": true,
        "expires_at": "2026-11-20T18:15:30.123Z", "permissions": [{ "permission": "view_stats", "domain": "example.test" }]
}))]
pub(crate) struct MeBody {
    /// Always true.
    success: bool,
    /// Mailbox that the token is bound to; null for an admin's API token.
    #[schema(required)]
    email: Option<String>,
    /// Name of the API token; for a session, the name of the user.
    name: String,
    /// Token type.
    #[schema(value_type = TokenType)]
    token_type: &'static str,
    /// True for a session token, false for an API token.
    is_session: bool,
    /// Expiry time; null if the token never expires.
    #[schema(required)]
    expires_at: Option<Moment>,
    /// Permissions granted to the mailbox. Admins need none.
    permissions: Vec<HeldPermission>,
}

/// A permission on one domain.
#[derive(Serialize, ToSchema)]
struct HeldPermission {
    /// Permission name.
    #[schema(value_type = PermissionName)]
    permission: &'static str,
    /// Domain name.
    domain: String,
}

impl From<(Permission, DomainName)> for HeldPermission {
    fn from((permission, domain): (Permission, DomainName)) -> Self {
        Self { permission: permission.as_str(), domain: domain.shown().to_owned() }
    }
}

impl From<Me> for MeBody {
    fn from(Me { token, permissions }: Me) -> Self {
        Self {
            success: true,
            email: token.email.map(|email| email.shown().to_owned()),
            name: token.name,
            token_type: token.kind.as_str(),
            is_session: token.is_session,
            expires_at: token.expires_at.map(Moment),
            permissions: permissions.into_iter().map(Into::into).collect(),
        }
    }
}

documented_errors!(Errors, documented, []);

/// Get the current caller
///
/// Returns the caller's identity and permissions.
#[utoipa::path(get, path = "/auth/me", tag = "auth", operation_id = "get_current_session",
    responses((status = 200, description = "The caller.", body = MeBody), Errors))]
pub(crate) async fn me(_: State<HttpState>, Caller(caller): Caller) -> Result<Json<MeBody>, ApiError> {
    // HTTP callers always have a token.
    Ok(Json(caller.me().ok_or(ErrorCode::InvalidToken)?.into()))
}
