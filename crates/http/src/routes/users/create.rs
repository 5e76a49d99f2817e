//! `POST /users`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{PasswordRule, Violations};
use mailapi_service::users::CreateUser;
use serde::Serialize;
use utoipa::ToSchema;

use super::UserRecord;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json::{JsonBody, Members};
use crate::routes::to_the_end;
use crate::shape::{NewPassword, ShortText};
use crate::state::HttpState;

/// A user to create.
#[derive(ToSchema)]
#[schema(as = CreateUser, example = json!({
        "email": "alice@example.test", "password": "correct horse battery staple", "name": "Alice Lee"
}))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct CreateUserBody {
    /// Address of the user. Its domain must exist.
    #[schema(format = IdnEmail)]
    email: String,
    /// Password: at least 8 characters.
    #[schema(value_type = NewPassword)]
    password: String,
    /// Display name: one line of at most 200 characters.
    #[schema(value_type = Option<ShortText>)]
    name: Option<String>,
    /// Mailbox quota in bytes; the server's default quota by default.
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    quota_bytes: Option<u64>,
}

/// The new user.
#[derive(Serialize, ToSchema)]
pub(crate) struct UserCreated {
    /// Always true.
    success: bool,
    /// The new user.
    user: UserRecord,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, DomainNotFound, UserExists]);

/// Create a user
///
/// For admins and for callers with `manage_users` on the domain. Creates an account with an empty mailbox.
#[utoipa::path(post, path = "/users", tag = "users", operation_id = "create_user", request_body = CreateUserBody,
    responses((status = 201, description = "The user was created.", body = UserCreated), Errors))]
pub(crate) async fn create(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    body: JsonBody,
) -> Result<(StatusCode, Json<UserCreated>), ApiError> {
    let new = read(body.members)?;
    let service = state.service().clone();
    let user = to_the_end(async move { service.create_user(&caller, new).await }).await??;
    Ok((StatusCode::CREATED, Json(UserCreated { success: true, user: user.into() })))
}

fn read(mut members: Members) -> Result<CreateUser, Violations> {
    let mut violations = Violations::none();
    let email = members.required_parsed("email", &mut violations);
    let password = members.required_text("password", &mut violations);
    let password = password.and_then(|text| violations.merge(PasswordRule::parse("password", text)));
    let name = members.one_line("name", &mut violations).unwrap_or_default();
    let quota_bytes = members.unsigned("quota_bytes", &mut violations);
    let (email, password) = violations.or(email.zip(password))?;
    Ok(CreateUser { email, password, name, quota_bytes })
}
