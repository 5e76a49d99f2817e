//! Accounts and their mailboxes.

mod create;
mod delete;
mod disable;
mod enable;
mod get;
mod list;
mod me;
mod purge;
mod reset_password;
mod update;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::EmailAddress;
use mailapi_service::Caller;
use mailapi_service::users::{User, UserError};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

use crate::caller;
use crate::error::{ApiError, ErrorCode};
use crate::path::PathParameters;
use crate::router::api_routes as routes;
use crate::shape::Moment;
use crate::state::HttpState;

/// Every operation of this area.
pub(crate) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(list::list, create::create))
        .routes(routes!(me::me))
        .routes(routes!(get::get, update::update, delete::delete))
        .routes(routes!(enable::enable))
        .routes(routes!(disable::disable))
        .routes(routes!(reset_password::reset_password))
        .routes(routes!(purge::purge))
}

/// A user: an account with its mailbox.
#[derive(Serialize, ToSchema)]
#[schema(as = User, example = json!({
    "email": "ann@example.org", "name": "Ann Lee", "domain": "example.org", "active": true, "is_admin": false,
    "quota_bytes": null, "quota_used_bytes": 52344, "message_count": 17, "quota_known": true, "created_at": "2026-11-20T10:15:30.123Z",
    "updated_at": "2026-11-20T10:15:30.123Z", "last_login_at": null
}))]
pub(crate) struct UserRecord {
    /// The address, which is also the log-in name.
    email: String,
    /// What the user is called; may be empty.
    name: String,
    /// The domain of the address.
    domain: String,
    /// Whether the user may log in and use tokens.
    active: bool,
    /// Whether the user is on the configured list of admins.
    is_admin: bool,
    /// How many octets of mail the mailbox may hold; null means any number.
    #[schema(required)]
    quota_bytes: Option<u64>,
    /// How many it holds; 0 as well when `quota_known` is false.
    quota_used_bytes: u64,
    /// How many messages it holds; 0 as well when `quota_known` is false.
    message_count: u64,
    /// Whether the mailbox server told `quota_used_bytes` and `message_count`; false while it does not.
    quota_known: bool,
    /// When the account was made.
    created_at: Moment,
    /// When it was last changed.
    updated_at: Moment,
    /// When the user last logged in with the password.
    #[schema(required)]
    last_login_at: Option<Moment>,
}

impl From<User> for UserRecord {
    fn from(User { account, is_admin, quota }: User) -> Self {
        let quota_known = quota.is_some();
        // The interface has numbers here, and none that would mean that nobody knows.
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

/// The address in the path. What is no address is no user's; only an admin is told so.
pub(super) fn user_in(path: &PathParameters, caller: &Caller) -> Result<EmailAddress, ApiError> {
    match path.parsed("email") {
        Some(email) => Ok(email),
        None => Err(caller.grants.admin().map_or_else(Into::into, |_| ErrorCode::UserNotFound.into())),
    }
}

/// A caller who may manage the user in the path. The request's body is not read for anybody else.
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

impl From<UserError> for ApiError {
    fn from(error: UserError) -> Self {
        match error {
            UserError::Denied(denied) => denied.into(),
            UserError::NotFound => ErrorCode::UserNotFound.into(),
            UserError::Exists => ErrorCode::UserExists.into(),
            UserError::DomainNotFound => ErrorCode::DomainNotFound.into(),
            UserError::Invalid(violations) => violations.into(),
            UserError::Unavailable(error) => error.into(),
        }
    }
}
