//! App passwords.

pub(crate) mod create;
pub(super) mod list;
pub(super) mod revoke;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::{AppPassword, EmailAddress};
use mailapi_service::Caller;
use serde::Serialize;
use utoipa::ToSchema;

use super::user_in;
use crate::caller;
use crate::error::ApiError;
use crate::path::PathParameters;
use crate::shape::Moment;
use crate::state::HttpState;

/// An app password, without the value.
#[derive(Serialize, ToSchema)]
#[schema(as = AppPassword, example = json!({
    "id": 1, "name": "Thunderbird on the laptop", "created_at": "2026-11-20T10:15:30.123Z", "last_used_at": null
}))]
pub(crate) struct AppPasswordInfo {
    /// App password number.
    id: i64,
    /// Display name.
    name: String,
    /// Creation time.
    created_at: Moment,
    /// Time of the latest log-in with it; null if there was none, and in front of an external mail server.
    #[schema(required)]
    last_used_at: Option<Moment>,
}

impl From<AppPassword> for AppPasswordInfo {
    fn from(AppPassword { id, name, created_at, last_used_at }: AppPassword) -> Self {
        Self { id: id.0, name, created_at: created_at.into(), last_used_at: last_used_at.map(Moment) }
    }
}

/// A caller who may manage the app passwords of the user in the path. The body is read only after this check.
pub(crate) struct AppPasswordManager {
    caller: Caller,
    email: EmailAddress,
    path: PathParameters,
}

impl FromRequestParts<HttpState> for AppPasswordManager {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller::Caller(caller) = caller::Caller::from_request_parts(parts, state).await?;
        let path = PathParameters::from_request_parts(parts, state).await?;
        let email = user_in(&path, &caller)?;
        state.service().may_manage_app_passwords(&caller, &email)?;
        Ok(Self { caller, email, path })
    }
}
