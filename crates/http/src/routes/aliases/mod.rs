//! Aliases.

mod create;
mod delete;
mod get;
mod list;
mod update;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::{Alias, EmailAddress};
use mailapi_service::Caller;
use mailapi_service::aliases::AliasError;
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
    Routes::new().routes(routes!(list::list, create::create)).routes(routes!(get::get, update::update, delete::delete))
}

/// An alias: an address whose mail goes to other addresses.
#[derive(Serialize, ToSchema)]
#[schema(as = Alias, example = json!({
    "address": "team@example.test", "domain": "example.test", "members": ["alice@example.test", "bob@example.test"],
    "senders": ["alice@example.test"], "active": true, "created_at": "2026-11-20T10:15:30.123Z"
}))]
pub(crate) struct AliasRecord {
    /// Address; `*@` and the domain for its catch-all.
    address: String,
    /// Domain of the address.
    domain: String,
    /// Addresses that receive the mail.
    members: Vec<String>,
    /// Users who may send from the alias.
    senders: Vec<String>,
    /// Whether the alias accepts mail.
    active: bool,
    /// Creation time.
    created_at: Moment,
}

impl From<Alias> for AliasRecord {
    fn from(alias: Alias) -> Self {
        Self {
            address: alias.address.shown().to_owned(),
            domain: alias.domain().shown().to_owned(),
            members: alias.members.iter().map(|member| member.shown().to_owned()).collect(),
            senders: alias.senders.iter().map(|sender| sender.shown().to_owned()).collect(),
            active: alias.active,
            created_at: alias.created_at.into(),
        }
    }
}

/// Address in the path. An invalid address is an unknown alias, which only an admin may learn.
fn alias_in(path: &PathParameters, caller: &Caller) -> Result<EmailAddress, ApiError> {
    match path.parsed("address") {
        Some(address) => Ok(address),
        None => Err(caller.grants.admin().map_or_else(Into::into, |_| ErrorCode::AliasNotFound.into())),
    }
}

/// A caller who may manage the alias in the path. The body is read only after this check.
struct AliasManager {
    caller: Caller,
    address: EmailAddress,
}

impl FromRequestParts<HttpState> for AliasManager {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller::Caller(caller) = caller::Caller::from_request_parts(parts, state).await?;
        let path = PathParameters::from_request_parts(parts, state).await?;
        let address = alias_in(&path, &caller)?;
        state.service().may_manage_alias(&caller, &address)?;
        Ok(Self { caller, address })
    }
}

impl From<AliasError> for ApiError {
    fn from(error: AliasError) -> Self {
        match error {
            AliasError::Denied(denied) => denied.into(),
            AliasError::NotFound => ErrorCode::AliasNotFound.into(),
            AliasError::Exists => ErrorCode::AliasExists.into(),
            AliasError::DomainNotFound => ErrorCode::DomainNotFound.into(),
            AliasError::Invalid(violations) => violations.into(),
            AliasError::Unavailable(error) => error.into(),
        }
    }
}
