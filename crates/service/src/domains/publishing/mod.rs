//! Publishing the DNS records of a domain at its own name servers: a plan, the changes, and the way back.

mod apply;
mod challenge;
mod history;
mod plan;
mod primary;
mod propagation;
mod provider;
mod rollback;
mod zone_writer;

use mailapi_backend::{DnsError, UpdateError};
use mailapi_model::Denied;

use super::DomainError;
use crate::Unavailable;
use crate::error::store_errors_are_unavailable;

pub use apply::{AppliedPlan, AttemptedChange};
pub use mailapi_hosted_dns::{CredentialField, PROVIDERS, ProviderInfo, provider as hosted_provider};
pub use plan::{ChangeAction, DnsPlan, PlanConflict, PlanOptions, PlannedChange};
pub use propagation::{ServerState, ServerView};
pub use provider::{AccountFields, ProviderFields};
pub(super) use {primary::DNS_PORT, propagation::state_of};

/// Why the records of a domain are not planned, changed or changed back.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// See [`DomainError`].
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The domain has no provider.
    #[error("the domain has no DNS provider")]
    NoProvider,
    /// The plan is another one by now: DNS, the domain or the settings of this server have changed.
    #[error("the plan has changed")]
    PlanChanged,
    /// No zone, or no name server of it, was found for the domain.
    #[error("the zone of the domain was not found: {0}")]
    NoZone(DnsError),
    /// The name server or provider that takes changes does not answer questions about the domain.
    #[error("the provider of the domain does not answer: {0}")]
    Unanswered(DnsError),
    /// The provider does not accept the key, or a check before the changes failed.
    #[error(transparent)]
    Refused(#[from] UpdateError),
}

impl From<Denied> for PublishError {
    fn from(denied: Denied) -> Self {
        Self::Domain(denied.into())
    }
}

store_errors_are_unavailable!(PublishError);
