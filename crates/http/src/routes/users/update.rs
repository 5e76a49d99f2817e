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

/// What is to change of a user; what is absent stays.
#[derive(ToSchema)]
#[schema(as = UpdateUser, example = json!({ "name": "Ann Lee-Smith", "quota_bytes": 1_000_000_000 }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct UpdateUserBody {
    /// What the user is called: one line of at most 200 characters.
    #[schema(value_type = Option<ShortText>)]
    name: Option<String>,
    /// How many octets of mail the mailbox may hold; null means any number.
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    quota_bytes: Option<u64>,
    /// A new password: at least 8 characters. It ends every session of the user.
    #[schema(value_type = Option<NewPassword>)]
    password: Option<String>,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound]);

/// Change a user
///
/// For admins and for callers with `manage_users` on the domain; accounts of admins are for admins only.
#[utoipa::path(put, path = "/users/{email}", tag = "users", operation_id = "update_user",
    params(("email" = String, Path, format = IdnEmail, description = "The user's address.",
        example = "ann@example.org")),
    request_body = UpdateUserBody,
    responses((status = 200, description = "The user as it is now.", body = UserFound), Errors))]
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
