//! `POST /auth/logout`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::state::HttpState;

/// The session was ended.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The session was ended." }))]
pub(crate) struct LoggedOut {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
}

documented_errors!(Errors, documented, [ValidationError]);

/// Log out
///
/// Ends the session; its token is invalid from the next request on. An API token is rejected with `VALIDATION_ERROR`;
/// revoke it instead.
#[utoipa::path(post, path = "/auth/logout", tag = "auth", operation_id = "log_out",
    responses((status = 200, description = "The session was ended.", body = LoggedOut), Errors))]
pub(crate) async fn logout(
    State(state): State<HttpState>,
    Caller(caller): Caller,
) -> Result<Json<LoggedOut>, ApiError> {
    state.service().logout(&caller).await?;
    Ok(Json(LoggedOut { success: true, message: "The session was ended." }))
}
