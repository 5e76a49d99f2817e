//! `GET /auth/me`.

use axum::extract::State;
use mailapi_model::{DomainName, Permission};
use mailapi_service::auth::Me;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::shape::{Moment, TokenType};
use crate::state::HttpState;

/// Who asks.
#[derive(Serialize, ToSchema)]
#[schema(as = Me, example = json!({
    "success": true, "email": "ann@example.org", "name": "Ann Lee", "token_type": "user", "is_session": true,
    "expires_at": "2026-11-20T18:15:30.123Z", "permissions": [{ "permission": "view_stats", "domain": "example.org" }]
}))]
pub(crate) struct MeBody {
    /// Always true.
    success: bool,
    /// The mailbox that the token is bound to; null for an admin's API token.
    #[schema(required)]
    email: Option<String>,
    /// What the token is called; of a session, what its user is called.
    name: String,
    /// What the token reaches.
    #[schema(value_type = TokenType)]
    token_type: &'static str,
    /// Whether it is a session's token, not an API token.
    is_session: bool,
    /// When it ends by itself; null when it does not.
    #[schema(required)]
    expires_at: Option<Moment>,
    /// What was delegated to the mailbox. An admin may do everything without.
    permissions: Vec<HeldPermission>,
}

/// A right in one domain.
#[derive(Serialize, ToSchema)]
struct HeldPermission {
    /// What it allows.
    permission: &'static str,
    /// Where.
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
/// Whose token the request shows, and what was delegated to them.
#[utoipa::path(get, path = "/auth/me", tag = "auth", operation_id = "get_current_session",
    responses((status = 200, description = "Who asks.", body = MeBody), Errors))]
pub(crate) async fn me(_: State<HttpState>, Caller(caller): Caller) -> Result<Json<MeBody>, ApiError> {
    // Whoever comes over HTTP shows a token.
    Ok(Json(caller.me().ok_or(ErrorCode::InvalidToken)?.into()))
}
