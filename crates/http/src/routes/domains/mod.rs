//! Mail domains and their DKIM keys.

mod approve;
mod create;
mod delete;
pub(crate) mod dkim;
pub(crate) mod dns;
mod get;
mod list;
mod pending;
pub(crate) mod posture;
pub(crate) mod publishing;
mod update;
mod verify;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::{Domain, DomainName};
use mailapi_service::Caller;
use mailapi_service::domains::DomainError;
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
        .routes(routes!(pending::pending))
        .routes(routes!(get::get, update::update, delete::delete))
        .routes(routes!(approve::approve))
        .routes(routes!(verify::verify))
        .routes(routes!(dns::get_dns))
        .routes(routes!(posture::posture))
        .routes(routes!(dkim::get_dkim, dkim::rotate_dkim))
        .merge(publishing::routes())
}

/// A mail domain.
#[derive(Serialize, ToSchema)]
#[schema(as = Domain, example = json!({
        "domain": "example.test", "active": true, "created": "2026-11-20T10:15:30.123Z", "creator_email": null,
        "description": "Main domain", "user_count": 2, "dkim_selector": "m2026112001", "verified": false, "verified_at": null
}))]
pub(crate) struct DomainRecord {
    /// Domain name.
    domain: String,
    /// Whether the domain can send mail.
    active: bool,
    /// Creation time.
    created: Moment,
    /// Address of the user who signed up; null if an admin created the domain.
    #[schema(required)]
    creator_email: Option<String>,
    /// Note for admins.
    #[schema(required)]
    description: Option<String>,
    /// Number of users.
    user_count: u64,
    /// Selector of the current DKIM key; null if there is none yet.
    #[schema(required)]
    dkim_selector: Option<String>,
    /// Whether the required DNS records were correct at the latest verification.
    verified: bool,
    /// Time of the latest successful verification; null if the domain is not verified.
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

/// Domain in the path. An invalid name is an unknown domain, which only an admin may learn.
pub(super) fn domain_in(path: &PathParameters, caller: &Caller) -> Result<DomainName, ApiError> {
    match path.parsed("domain") {
        Some(domain) => Ok(domain),
        None => Err(caller.grants.admin().map_or_else(Into::into, |_| ErrorCode::DomainNotFound.into())),
    }
}

/// A caller who may manage the domain in the path. The body is read only after this check.
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
                "The domain has no DKIM key yet; a pending domain gets one when it is approved.",
            ),
            DomainError::TooManyKeys { retry_after } => Self::rate_limited(retry_after),
        }
    }
}
