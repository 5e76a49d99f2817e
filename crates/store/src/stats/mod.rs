//! Statistics.
//!
//! The cost of a query depends on the hours, days and domains it covers, not on the number of messages:
//! counts are maintained. Each change of a recipient's state adds a short row to a journal, in the same
//! transaction. A roll-up sums many journal rows and moves them into the counts in one transaction. So the
//! counts are exact up to the latest roll-up, whatever is interrupted.

#[cfg(test)]
mod backfill;
mod counts;
pub(crate) mod hours;
mod inbound;
pub(crate) mod read;
mod roll_up;
mod sums;

pub use counts::SentCounts;
pub use hours::{Hours, Span};
pub use mailapi_model::{InboundEvent, InboundOutcome};
pub use read::{InboundCounts, SentScope};
pub use roll_up::{RollUpSize, RolledUp};

use crate::db::Db;

/// The statistics.
#[derive(Debug, Clone, Copy)]
pub struct Stats<'a>(pub(crate) &'a Db);
