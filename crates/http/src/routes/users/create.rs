//! `POST /users`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::EmailAddress;
use mailapi_service::auth::NewCredential;
use mailapi_service::users::CreateUser;
use serde::Serialize;
use utoipa::ToSchema;

use super::UserRecord;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::routes::to_the_end;
use crate::shape::{NewPassword, PasswordHash, ShortText};
use crate::state::HttpState;

request_body! {
    /// A user to create.
    pub(crate) struct CreateUserBody as "CreateUser" {
        /// Address of the user. Its domain must exist.
        email: EmailAddress,
        /// Password: at least 8 characters. Required, unless there is a `password_hash`.
        password: Option<NewPassword>,
        /// Instead of a password: the hash of one from another mail server. For admins only. The user keeps the password,
        /// and the first successful login replaces the hash if its scheme is not `{SHA512-CRYPT}`.
        password_hash: Option<PasswordHash>,
        /// Display name: one line of at most 200 characters.
        name: Option<ShortText>,
        /// Mailbox quota in bytes; 0 means unlimited. The server's default quota by default.
        quota_bytes: Option<u64>,
    }
    example { "email": "alice@example.test", "password": "correct horse battery staple", "name": "Alice Lee" }
}

/// The new user.
#[derive(Serialize, ToSchema)]
pub(crate) struct UserCreated {
    /// Always true.
    success: bool,
    /// The new user.
    user: UserRecord,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, DomainNotFound, UserExists, AliasExists]);

/// Create a user
///
/// For admins and for callers with `manage_users` on the domain. Creates an account with an empty mailbox.
#[utoipa::path(post, path = "/users", tag = "users", operation_id = "create_user", request_body = CreateUserBody,
    responses((status = 201, description = "The user was created.", body = UserCreated), Errors))]
pub(crate) async fn create(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    body: JsonBody<CreateUserBody>,
) -> Result<(StatusCode, Json<UserCreated>), ApiError> {
    let CreateUserBody { email, password, password_hash, name, quota_bytes } = body.read()?;
    let password = NewCredential::one_of(password, password_hash)?;
    let new = CreateUser { email, password, name: name.unwrap_or_default(), quota_bytes };
    let service = state.service().clone();
    let user = to_the_end(async move { service.create_user(&caller, new).await }).await??;
    Ok((StatusCode::CREATED, Json(UserCreated { success: true, user: user.into() })))
}
