//! `POST /users/{email}/reset-password`.

use axum::extract::State;
use mailapi_model::{PasswordRule, SecretText, Violations};
use serde::Serialize;
use utoipa::ToSchema;

use super::UserManager;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::{Members, OptionalJsonBody};
use crate::routes::to_the_end;
use crate::shape::NewPassword;
use crate::state::HttpState;

/// The new password, if there is one already.
#[derive(ToSchema)]
#[schema(example = json!({ "password": "correct horse battery staple" }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct ResetPassword {
    /// The new password: at least 8 characters. Absent means that a strong one is made.
    #[schema(value_type = Option<NewPassword>)]
    password: Option<String>,
}

/// The password is another.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "message": "The password was changed.", "password": "Zk3vW1sQ8mTtBp0LxYc7uRnD"
}))]
pub(crate) struct PasswordReset {
    /// Always true.
    success: bool,
    /// What happened.
    message: &'static str,
    /// The password that was made. It is told here and never again; absent when the request brought one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    password: Option<String>,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound]);

/// Reset a user's password
///
/// For admins and for callers with `manage_users` on the domain; accounts of admins are for admins only. Every session
/// of the user ends; API tokens stay.
#[utoipa::path(post, path = "/users/{email}/reset-password", tag = "users", operation_id = "reset_password",
    params(("email" = String, Path, format = IdnEmail, description = "The user's address.",
        example = "ann@example.org")),
    request_body = Option<ResetPassword>,
    responses((status = 200, description = "The password was changed.", body = PasswordReset), Errors))]
pub(crate) async fn reset_password(
    State(state): State<HttpState>,
    UserManager { caller, email }: UserManager,
    OptionalJsonBody(members): OptionalJsonBody,
) -> Result<Json<PasswordReset>, ApiError> {
    let password = read(members)?;
    let service = state.service().clone();
    let made = to_the_end(async move { service.reset_password(&caller, &email, password).await }).await??;
    let password = made.map(SecretText::into_inner);
    Ok(Json(PasswordReset { success: true, message: "The password was changed.", password }))
}

fn read(mut members: Members) -> Result<Option<SecretText>, Violations> {
    let mut violations = Violations::none();
    let password = members.text("password", &mut violations);
    let password = password.and_then(|text| violations.merge(PasswordRule::parse("password", text)));
    violations.or(Some(password))
}
