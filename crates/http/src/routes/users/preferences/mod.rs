//! Preferences of a mailbox.

pub(super) mod get;
pub(super) mod update;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::{EmailAddress, SaveSent};
use mailapi_service::Caller;
use serde::Serialize;
use utoipa::ToSchema;

use super::user_in;
use crate::caller;
use crate::error::ApiError;
use crate::path::PathParameters;
use crate::shape::SaveSentName;
use crate::state::HttpState;

/// A caller who may manage the preferences of the user in the path. The body is read only after this check.
pub(crate) struct PreferencesManager {
    caller: Caller,
    email: EmailAddress,
}

impl FromRequestParts<HttpState> for PreferencesManager {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller::Caller(caller) = caller::Caller::from_request_parts(parts, state).await?;
        let path = PathParameters::from_request_parts(parts, state).await?;
        let email = user_in(&path, &caller)?;
        state.service().may_manage_preferences(&caller, &email)?;
        Ok(Self { caller, email })
    }
}

/// The preferences of a mailbox.
#[derive(Serialize, ToSchema)]
#[schema(as = Preferences, example = json!({ "success": true, "email": "alice@example.test", "save_sent": "api" }))]
pub(crate) struct PreferencesFound {
    /// Always true.
    success: bool,
    /// Address of the user.
    email: String,
    /// Which messages of the user are copied to the folder `Sent`: none (`off`), those sent through the API (`api`), or
    /// also those that mail programs send (`all`).
    #[schema(value_type = SaveSentName)]
    save_sent: &'static str,
}

impl PreferencesFound {
    fn new(email: &EmailAddress, save_sent: SaveSent) -> Self {
        Self { success: true, email: email.shown().to_owned(), save_sent: save_sent.as_str() }
    }
}
