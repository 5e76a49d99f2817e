//! `GET /users/{email}/app-passwords`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::AppPasswordInfo;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query};
use crate::routes::users::MailboxManager;
use crate::state::HttpState;

/// A page of app passwords.
#[derive(Serialize, ToSchema)]
pub(crate) struct AppPasswordsListed {
    /// Always true.
    success: bool,
    /// Total number of app passwords.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// App passwords, newest first.
    app_passwords: Vec<AppPasswordInfo>,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, ValidationError]);

/// List app passwords
///
/// For the user, for callers with `manage_users` on the domain, and for admins. Returns app passwords, newest first.
/// Values are not returned.
#[utoipa::path(get, path = "/users/{email}/app-passwords", tag = "users", operation_id = "list_app_passwords",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test"),
        PageParameters),
    responses((status = 200, description = "A page of app passwords.", body = AppPasswordsListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    MailboxManager { caller, email, .. }: MailboxManager,
    query: Query<PageParameters>,
) -> Result<Json<AppPasswordsListed>, ApiError> {
    let page = query.read()?;
    let listed = state.service().list_app_passwords(&caller, &email, page).await?;
    Ok(Json(AppPasswordsListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        app_passwords: listed.items.into_iter().map(Into::into).collect(),
    }))
}
