//! `POST /auth/password`.

use axum::extract::State;
use mailapi_model::{SecretText, Violations};
use mailapi_service::auth::ChangePasswordError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::routes::to_the_end;
use crate::shape::NewPassword;
use crate::state::HttpState;

request_body! {
    /// The current and the new password.
    pub(crate) struct ChangePasswordBody as "ChangePassword" {
        /// Current password.
        current_password: SecretText,
        /// New password: at least 8 characters.
        new_password: NewPassword,
    }
    example { "current_password": "correct horse battery staple", "new_password": "a staple for every horse" }
}

/// The password was changed.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The password was changed." }))]
pub(crate) struct PasswordChanged {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
}

documented_errors!(Errors, documented_with_body, [InvalidCredentials, AccountLocked]);

/// Change your own password
///
/// Changes the password of the caller's mailbox and ends its other sessions, including those of mail programs that use
/// it. API tokens and app passwords stay valid. A wrong current password counts as a failed login. An admin's API token
/// has no mailbox and gets `VALIDATION_ERROR`.
#[utoipa::path(post, path = "/auth/password", tag = "auth", operation_id = "change_password",
    request_body = ChangePasswordBody,
    responses((status = 200, description = "The password was changed.", body = PasswordChanged), Errors))]
pub(crate) async fn change_password(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    body: JsonBody<ChangePasswordBody>,
) -> Result<Json<PasswordChanged>, ApiError> {
    let ChangePasswordBody { current_password: current, new_password: new } = body.read()?;
    let service = state.service().clone();
    to_the_end(async move { service.change_password(&caller, &current, new).await }).await??;
    Ok(Json(PasswordChanged { success: true, message: "The password was changed." }))
}

impl From<ChangePasswordError> for ApiError {
    fn from(error: ChangePasswordError) -> Self {
        match error {
            ChangePasswordError::NoMailbox => Violations::of("X-MAILAPI-TOKEN", error.to_string()).into(),
            ChangePasswordError::Credentials(error) => error.into(),
            ChangePasswordError::Invalid(violations) => violations.into(),
            ChangePasswordError::Unavailable(error) => error.into(),
        }
    }
}
