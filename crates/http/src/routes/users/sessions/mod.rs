//! Sessions of a mailbox.

pub(super) mod end;
pub(super) mod list;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::EmailAddress;
use mailapi_service::Caller;

use super::user_in;
use crate::caller;
use crate::error::ApiError;
use crate::path::PathParameters;
use crate::state::HttpState;

/// A caller who may manage the sessions of the user in the path.
pub(crate) struct SessionManager {
    caller: Caller,
    email: EmailAddress,
    path: PathParameters,
}

impl FromRequestParts<HttpState> for SessionManager {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller::Caller(caller) = caller::Caller::from_request_parts(parts, state).await?;
        let path = PathParameters::from_request_parts(parts, state).await?;
        let email = user_in(&path, &caller)?;
        state.service().may_manage_sessions(&caller, &email)?;
        Ok(Self { caller, email, path })
    }
}
