//! Mail domains.

mod approve;
mod create;
mod delete;
mod dkim;
mod get;
mod list;
mod pending;
mod update;
mod verify;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::{Domain, DomainName};
use mailapi_service::Caller;
use mailapi_service::domains::DomainError;
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
        .routes(routes!(pending::pending))
        .routes(routes!(get::get, update::update, delete::delete))
        .routes(routes!(approve::approve))
        .routes(routes!(verify::verify))
        .routes(routes!(dkim::get_dkim, dkim::rotate_dkim))
}

/// A mail domain.
#[derive(Serialize, ToSchema)]
#[schema(as = Domain, example = json!({
    "domain": "example.org", "active": true, "created": "2026-11-20T10:15:30.123Z", "creator_email": null,
    "description": "Our own", "user_count": 2, "dkim_selector": "m2026112001", "verified": false, "verified_at": null
}))]
pub(crate) struct DomainRecord {
    /// Its name.
    domain: String,
    /// Whether mail may be sent from it.
    active: bool,
    /// When it was made.
    created: Moment,
    /// Who signed it up; null when an admin made it.
    #[schema(required)]
    creator_email: Option<String>,
    /// What its admin wrote about it.
    #[schema(required)]
    description: Option<String>,
    /// How many users it has.
    user_count: u64,
    /// The selector of its current DKIM key.
    #[schema(required)]
    dkim_selector: Option<String>,
    /// Whether its DNS records were found right when last looked at.
    verified: bool,
    /// When that was.
    #[schema(required)]
    verified_at: Option<Moment>,
}

impl From<Domain> for DomainRecord {
    fn from(domain: Domain) -> Self {
        Self {
            domain: domain.name.shown().to_owned(),
            active: domain.active,
            created: domain.created_at.into(),
            creator_email: domain.creator_email.map(|email| email.shown().to_owned()),
            description: domain.description,
            user_count: domain.user_count,
            dkim_selector: domain.dkim_selector,
            verified: domain.verified_at.is_some(),
            verified_at: domain.verified_at.map(Moment),
        }
    }
}

/// The domain in the path. What is no domain's name does not exist; only an admin is told so.
pub(super) fn domain_in(path: &PathParameters, caller: &Caller) -> Result<DomainName, ApiError> {
    match path.parsed("domain") {
        Some(domain) => Ok(domain),
        None => Err(caller.grants.admin().map_or_else(Into::into, |_| ErrorCode::DomainNotFound.into())),
    }
}

/// A caller who may manage the domain in the path. The request's body is not read for anybody else.
struct DomainManager {
    caller: Caller,
    name: DomainName,
}

impl FromRequestParts<HttpState> for DomainManager {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller::Caller(caller) = caller::Caller::from_request_parts(parts, state).await?;
        let path = PathParameters::from_request_parts(parts, state).await?;
        let name = domain_in(&path, &caller)?;
        caller.grants.may_manage_domain(&name)?;
        Ok(Self { caller, name })
    }
}

impl From<DomainError> for ApiError {
    fn from(error: DomainError) -> Self {
        match error {
            DomainError::Denied(denied) => denied.into(),
            DomainError::NotFound => ErrorCode::DomainNotFound.into(),
            DomainError::Exists => ErrorCode::DomainExists.into(),
            DomainError::Unavailable(error) => error.into(),
            DomainError::NotEmpty => ErrorCode::DomainNotEmpty.into(),
            DomainError::AwaitsApproval => Self::new(
                ErrorCode::NotFound,
                "The domain has no DKIM key yet; one that waits for approval gets it then.",
            ),
            DomainError::TooManyKeys { retry_after } => Self::rate_limited(retry_after),
        }
    }
}
