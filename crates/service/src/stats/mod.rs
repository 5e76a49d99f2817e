//! Statistics of delivery.

mod breakdown;
mod delivery;
mod domain;
mod domains;
mod inbound;
mod limits;
mod owners;
mod period;
mod refusals;
mod roll_up;
mod sender;
mod summary;
mod user;

use mailapi_model::{Denied, Violations};

use crate::error::store_errors_are_unavailable;
use crate::{Service, Unavailable};

pub use breakdown::{BreakdownEntry, Bucket, GroupBy, UnknownGroupBy};
pub use delivery::{DeliveryQuery, DeliveryStats};
pub use domain::{DomainCount, DomainStats};
pub use domains::{DomainDelivery, DomainsStats};
pub use inbound::LateInboundLog;
pub use limits::StatsLimits;
pub use mailapi_model::{InboundEvent, InboundOutcome};
pub use mailapi_store::{InboundCounts, RollUpSize, RolledUp, SentCounts};

pub(crate) use inbound::InboundTally;
pub use period::{Period, PeriodQuery};
pub(crate) use refusals::Refusals;
pub use sender::Sender;
pub use summary::delivery_rate;

/// The reason why no statistics are returned.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    /// The caller lacks permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The domain does not exist.
    #[error("the domain does not exist")]
    DomainNotFound,
    /// The account does not exist.
    #[error("the user does not exist")]
    UserNotFound,
    /// The request is invalid.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(StatsError);

impl Service {
    /// The limits of statistics.
    #[must_use]
    pub fn stats_limits(&self) -> &StatsLimits {
        &self.0.settings.stats
    }
}
