//! Mail domains.

mod approve;
mod create;
mod delete;
mod dkim;
mod dkim_rotation;
mod dns;
mod expire;
mod get;
mod hosted;
mod list;
mod pending;
mod posture;
mod publishing;
mod sending;
mod server_keys;
mod update;
mod verify;
mod watch;
mod zone_file;

use std::time::Duration;

use mailapi_model::Denied;
pub use mailapi_store::DomainChange;

use crate::Unavailable;
use crate::error::store_errors_are_unavailable;

pub use dns::{DnsSetup, Publication, WantedRecord};
pub use hosted::{HostedPages, ProgramPort, ProgramSettings, StsPolicy};
pub use posture::{DomainPosture, DomainProtection, ProtectionLevel};
pub use publishing::{
    AccountFields, AppliedPlan, AttemptedChange, ChangeAction, CredentialField, DnsPlan, PROVIDERS, PlanConflict,
    PlanOptions, PlannedChange, ProviderFields, ProviderInfo, PublishError, ServerState, ServerView, hosted_provider,
};
pub use server_keys::ServerKeys;
pub(crate) use verify::decisive_spf;
pub use verify::{DnsReport, RecordCheck, RecordStatus};

pub(crate) use sending::{SendingDomain, SendingDomains};

/// The reason why an operation on a domain failed.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// The caller lacks permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The domain does not exist.
    #[error("the domain does not exist")]
    NotFound,
    /// A domain of this name exists.
    #[error("the domain already exists")]
    Exists,
    /// The domain still has mailboxes.
    #[error("the domain still has mailboxes")]
    NotEmpty,
    /// The domain has no DKIM key: it waits for approval, which creates the first one, or no key was requested yet.
    #[error("the domain has no DKIM key yet")]
    AwaitsApproval,
    /// The domain had the maximum number of new DKIM keys today.
    #[error("too many new keys for the domain today")]
    TooManyKeys {
        /// Time until the next day.
        retry_after: Duration,
    },
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(DomainError);
