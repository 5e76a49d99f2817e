//! `POST /auth/refresh`.

use axum::extract::State;

use super::SessionBody;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::routes::to_the_end;
use crate::state::HttpState;

documented_errors!(Errors, documented, [ValidationError]);

/// Refresh a session
///
/// Replaces the caller's session by a new one with a new expiry time. The old token becomes invalid at once. An API
/// token is rejected with `VALIDATION_ERROR`.
#[utoipa::path(post, path = "/auth/refresh", tag = "auth", operation_id = "refresh_session",
    responses((status = 200, description = "The new session.", body = SessionBody), Errors))]
pub(crate) async fn refresh(
    State(state): State<HttpState>,
    Caller(caller): Caller,
) -> Result<Json<SessionBody>, ApiError> {
    let service = state.service().clone();
    let session = to_the_end(async move { service.refresh(&caller).await }).await??;
    Ok(Json(SessionBody::new(&session, state.service().settings().session_inactivity)))
}
