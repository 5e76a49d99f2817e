//! Mail domains.

mod approve;
mod create;
mod delete;
mod dkim;
mod expire;
mod get;
mod list;
mod pending;
mod sending;
mod update;
mod verify;

use std::time::Duration;

use mailapi_model::Denied;
pub use mailapi_store::DomainChange;

use crate::Unavailable;
use crate::error::store_errors_are_unavailable;

pub use verify::{DnsReport, RecordCheck, RecordStatus};

pub(crate) use sending::{SendingDomain, SendingDomains};

/// Why nothing was done with a domain.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// The caller may not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// There is none of that name.
    #[error("the domain does not exist")]
    NotFound,
    /// There is one of that name already.
    #[error("the domain exists already")]
    Exists,
    /// It still has mailboxes.
    #[error("the domain still has mailboxes")]
    NotEmpty,
    /// It has no DKIM key: it waits for approval, which gives it its first, or nobody has asked for one yet.
    #[error("the domain has no DKIM key yet")]
    AwaitsApproval,
    /// It has had as many new DKIM keys today as there can be.
    #[error("the domain has had too many new keys today")]
    TooManyKeys {
        /// How long it is until the next day begins.
        retry_after: Duration,
    },
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(DomainError);
