//! `PUT /users/{email}`.

use axum::extract::State;
use mailapi_model::{AccountChange, PasswordRule, Violations};
use mailapi_service::users::UpdateUser;
use utoipa::ToSchema;

use super::UserManager;
use super::get::UserFound;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::{JsonBody, Members};
use crate::routes::to_the_end;
use crate::shape::{NewPassword, ShortText};
use crate::state::HttpState;

/// Changes to a user. Absent members stay unchanged.
#[derive(ToSchema)]
#[schema(as = UpdateUser, example = json!({ "name": "Alice Smith", "quota_bytes": 1_000_000_000 }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct UpdateUserBody {
    /// Display name: one line of at most 200 characters.
    #[schema(value_type = Option<ShortText>)]
    name: Option<String>,
    /// Mailbox quota in bytes; null means unlimited.
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    quota_bytes: Option<u64>,
    /// New password: at least 8 characters. Ends all sessions of the user.
    #[schema(value_type = Option<NewPassword>)]
    password: Option<String>,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound]);

/// Update a user
///
/// For admins and for callers with `manage_users` on the domain. Only admins can update admin accounts.
#[utoipa::path(put, path = "/users/{email}", tag = "users", operation_id = "update_user",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    request_body = UpdateUserBody,
    responses((status = 200, description = "The updated user.", body = UserFound), Errors))]
pub(crate) async fn update(
    State(state): State<HttpState>,
    UserManager { caller, email }: UserManager,
    body: JsonBody,
) -> Result<Json<UserFound>, ApiError> {
    let change = read(body.members)?;
    let service = state.service().clone();
    let user = to_the_end(async move { service.update_user(&caller, &email, change).await }).await??;
    Ok(Json(UserFound { success: true, user: user.into() }))
}

fn read(mut members: Members) -> Result<UpdateUser, Violations> {
    let mut violations = Violations::none();
    let name = members.one_line("name", &mut violations);
    let quota_bytes = members.change("quota_bytes", &mut violations, Members::unsigned);
    let password = members.text("password", &mut violations);
    let password = password.and_then(|text| violations.merge(PasswordRule::parse("password", text)));
    violations.or(Some(UpdateUser { record: AccountChange { name, quota_bytes }, password }))
}
