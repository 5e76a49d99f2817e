//! `DELETE /users/{email}/sessions/{id}`.

use axum::extract::State;
use mailapi_model::TokenId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::routes::to_the_end;
use crate::routes::users::MailboxManager;
use crate::state::HttpState;

/// The session ended.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The session has ended.", "id": 3 }))]
pub(crate) struct SessionEnded {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Session number.
    id: i64,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, TokenNotFound]);

/// End a session
///
/// For the user, for callers with `manage_users` on the domain, and for admins. Only the owner and admins can end sessions
/// of admin accounts. The session's token stops working at once.
#[utoipa::path(delete, path = "/users/{email}/sessions/{id}", tag = "users", operation_id = "end_session",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test"),
        ("id" = i64, Path, description = "Session number.", example = 3)),
    responses((status = 200, description = "The session has ended.", body = SessionEnded), Errors))]
pub(crate) async fn end(
    State(state): State<HttpState>,
    MailboxManager { caller, email, path }: MailboxManager,
) -> Result<Json<SessionEnded>, ApiError> {
    let id = path.digits("id").map(TokenId).ok_or(ErrorCode::TokenNotFound)?;
    let service = state.service().clone();
    to_the_end(async move { service.end_session(&caller, &email, id).await }).await??;
    Ok(Json(SessionEnded { success: true, message: "The session has ended.", id: id.0 }))
}
