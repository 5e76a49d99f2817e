//! Sessions and self-signup.

mod lockouts;
mod login;
mod logout;
mod me;
mod password;
mod refresh;
mod signup;

use std::time::Duration;

use mailapi_model::Violations;
use mailapi_service::auth::{CredentialsError, NotASession, Session};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ErrorCode, whole_seconds};
use crate::router::{Routes, api_routes as routes};
use crate::shape::{Moment, TokenType};

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(signup::signup))
        .routes(routes!(login::login))
        .routes(routes!(logout::logout))
        .routes(routes!(refresh::refresh))
        .routes(routes!(password::change_password))
        .routes(routes!(me::me))
        .routes(routes!(lockouts::list::list))
        .routes(routes!(lockouts::unlock::unlock))
}

/// A new session.
#[derive(Serialize, ToSchema)]
#[schema(as = Session, example = json!({
        "success": true, "token": "maps_3pQz9aBv…", "token_type": "user", "email": "alice@example.test", "name": "Alice Lee",
    "expires_at": "2026-11-20T18:15:30.123Z", "inactivity_timeout_seconds": 600
}))]
struct SessionBody {
    /// Always true.
    success: bool,
    /// Session token for the header `X-MAILAPI-TOKEN`. It is returned only once.
    token: String,
    /// `admin` for the configured admins, `user` for all others.
    #[schema(value_type = TokenType)]
    token_type: &'static str,
    /// Mailbox that the session is bound to.
    email: String,
    /// Display name of the user; may be empty.
    name: String,
    /// Time when the session expires even if it is used; null if it does not.
    #[schema(required)]
    expires_at: Option<Moment>,
    /// The session also expires after this many seconds without a request.
    inactivity_timeout_seconds: u64,
}

impl SessionBody {
    fn new(Session { value, record }: &Session, inactivity: Duration) -> Self {
        Self {
            success: true,
            token: value.expose().to_owned(),
            token_type: record.kind.as_str(),
            email: record.email.as_ref().map_or_else(String::new, |email| email.shown().to_owned()),
            name: record.name.clone(),
            expires_at: record.expires_at.map(Moment),
            inactivity_timeout_seconds: whole_seconds(inactivity),
        }
    }
}

impl From<CredentialsError> for ApiError {
    fn from(error: CredentialsError) -> Self {
        match error {
            CredentialsError::Refused => ErrorCode::InvalidCredentials.into(),
            CredentialsError::Locked { remaining } => Self::later(ErrorCode::AccountLocked, remaining),
            CredentialsError::TooManyFromClient { remaining } => Self::rate_limited(remaining),
            CredentialsError::Unavailable(error) => error.into(),
        }
    }
}

impl From<NotASession> for ApiError {
    fn from(error: NotASession) -> Self {
        match error {
            NotASession::ApiToken => Violations::of("X-MAILAPI-TOKEN", error.to_string()).into(),
            NotASession::Ended => ErrorCode::TokenExpired.into(),
            NotASession::Unavailable(error) => error.into(),
        }
    }
}
