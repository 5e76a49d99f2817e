//! Publishing the DNS records of a domain.

mod apply;
mod history;
mod plan;
mod provider;
mod providers;
mod rollback;
mod shape;

use mailapi_service::DnsError;
use mailapi_service::domains::PublishError;

pub(crate) use apply::DnsApplied;
pub(crate) use history::RecordedDnsChange;
pub(crate) use rollback::DnsRolledBack;
pub(crate) use shape::PlanRecord;

use crate::error::{ApiError, ErrorCode};
use crate::router::{Routes, api_routes as routes};

/// Every operation.
pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(providers::list))
        .routes(routes!(provider::get, provider::set, provider::remove))
        .routes(routes!(plan::plan))
        .routes(routes!(apply::apply))
        .routes(routes!(rollback::roll_back))
        .routes(routes!(history::history))
}

impl From<PublishError> for ApiError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Domain(error) => error.into(),
            PublishError::Unavailable(error) => error.into(),
            PublishError::NoProvider => ErrorCode::DnsProviderNotFound.into(),
            PublishError::PlanChanged => ErrorCode::DnsPlanChanged.into(),
            PublishError::Refused(ref refusal) => {
                Self::new(ErrorCode::DnsRefused, format!("The provider did not take the key or the change: {refusal}."))
            }
            PublishError::NoZone(DnsError::NoSuchName) | PublishError::Unanswered(DnsError::NoSuchName) => {
                Self::new(ErrorCode::DnsZoneNotFound, format!("Nothing was changed: {error}."))
            }
            PublishError::NoZone(_) | PublishError::Unanswered(_) => {
                Self::new(ErrorCode::DnsUnavailable, format!("Nothing was changed: {error}."))
            }
        }
    }
}
