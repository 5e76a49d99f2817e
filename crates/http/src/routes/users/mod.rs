//! Accounts and their mailboxes.

pub(crate) mod app_passwords;
mod create;
mod delete;
mod disable;
mod enable;
mod get;
mod list;
mod me;
mod preferences;
mod purge;
mod reset_password;
pub(crate) mod rules;
mod sessions;
mod update;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::EmailAddress;
use mailapi_service::Caller;
use mailapi_service::users::{User, UserError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::caller;
use crate::error::{ApiError, ErrorCode};
use crate::path::PathParameters;
use crate::router::{Routes, api_routes as routes};
use crate::shape::Moment;
use crate::state::HttpState;

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list::list, create::create))
        .routes(routes!(me::me))
        .routes(routes!(get::get, update::update, delete::delete))
        .routes(routes!(enable::enable))
        .routes(routes!(disable::disable))
        .routes(routes!(reset_password::reset_password))
        .routes(routes!(purge::purge))
        .routes(routes!(app_passwords::list::list, app_passwords::create::create))
        .routes(routes!(app_passwords::revoke::revoke))
        .routes(routes!(sessions::list::list))
        .routes(routes!(sessions::end::end))
        .routes(routes!(rules::get::get, rules::replace::replace))
        .routes(routes!(preferences::get::get, preferences::update::update))
}

/// A user account with its mailbox.
#[derive(Serialize, ToSchema)]
#[schema(as = User, example = json!({
        "email": "alice@example.test", "name": "Alice Lee", "domain": "example.test", "active": true, "is_admin": false,
    "quota_bytes": null, "quota_used_bytes": 52344, "message_count": 17, "quota_known": true, "created_at": "2026-11-20T10:15:30.123Z",
    "updated_at": "2026-11-20T10:15:30.123Z", "last_login_at": null
}))]
pub(crate) struct UserRecord {
    /// Address, also the login name.
    email: String,
    /// Display name; may be empty.
    name: String,
    /// Domain of the address.
    domain: String,
    /// Whether the user can log in and use tokens.
    active: bool,
    /// Whether the user is a configured admin.
    is_admin: bool,
    /// Mailbox quota in bytes; null means unlimited.
    #[schema(required)]
    quota_bytes: Option<u64>,
    /// Mailbox size in bytes; 0 if `quota_known` is false.
    quota_used_bytes: u64,
    /// Number of messages; 0 if `quota_known` is false.
    message_count: u64,
    /// Whether `quota_used_bytes` and `message_count` are known; false while the mailbox server is unavailable.
    quota_known: bool,
    /// Creation time.
    created_at: Moment,
    /// Time of the latest change.
    updated_at: Moment,
    /// Time of the latest login with the password; null if there was none.
    #[schema(required)]
    last_login_at: Option<Moment>,
}

impl From<User> for UserRecord {
    fn from(User { account, is_admin, quota }: User) -> Self {
        let quota_known = quota.is_some();
        // The API requires a number; there is no value for "unknown".
        let quota = quota.unwrap_or_default();
        Self {
            email: account.email.shown().to_owned(),
            domain: account.domain().shown().to_owned(),
            name: account.name,
            active: account.active,
            is_admin,
            quota_bytes: account.quota_bytes,
            quota_used_bytes: quota.used_bytes,
            message_count: quota.messages,
            quota_known,
            created_at: account.created_at.into(),
            updated_at: account.updated_at.into(),
            last_login_at: account.last_login_at.map(Moment),
        }
    }
}

/// Address in the path. An invalid address is an unknown user, which only an admin may learn.
pub(super) fn user_in(path: &PathParameters, caller: &Caller) -> Result<EmailAddress, ApiError> {
    match path.parsed("email") {
        Some(email) => Ok(email),
        None => Err(caller.grants.admin().map_or_else(Into::into, |_| ErrorCode::UserNotFound.into())),
    }
}

/// A caller who may manage the user in the path. The body is read only after this check.
struct UserManager {
    caller: Caller,
    email: EmailAddress,
}

impl FromRequestParts<HttpState> for UserManager {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller::Caller(caller) = caller::Caller::from_request_parts(parts, state).await?;
        let path = PathParameters::from_request_parts(parts, state).await?;
        let email = user_in(&path, &caller)?;
        state.service().may_manage(&caller, &email)?;
        Ok(Self { caller, email })
    }
}

/// A caller who may manage the app passwords, sessions and preferences of the user in the path. The body is read only
/// after this check.
pub(crate) struct MailboxManager {
    caller: Caller,
    email: EmailAddress,
    path: PathParameters,
}

impl FromRequestParts<HttpState> for MailboxManager {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller::Caller(caller) = caller::Caller::from_request_parts(parts, state).await?;
        let path = PathParameters::from_request_parts(parts, state).await?;
        let email = user_in(&path, &caller)?;
        state.service().may_manage_app_passwords(&caller, &email)?;
        Ok(Self { caller, email, path })
    }
}

impl From<UserError> for ApiError {
    fn from(error: UserError) -> Self {
        match error {
            UserError::Denied(denied) => denied.into(),
            UserError::NotFound => ErrorCode::UserNotFound.into(),
            UserError::AppPasswordNotFound => ErrorCode::AppPasswordNotFound.into(),
            UserError::SessionNotFound => ErrorCode::TokenNotFound.into(),
            UserError::Exists => ErrorCode::UserExists.into(),
            UserError::IsAlias => ErrorCode::AliasExists.into(),
            UserError::DomainNotFound => ErrorCode::DomainNotFound.into(),
            UserError::Invalid(violations) => violations.into(),
            UserError::Unavailable(error) => error.into(),
        }
    }
}
