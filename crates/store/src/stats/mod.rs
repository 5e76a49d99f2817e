//! Statistics.
//!
//! What an answer costs depends on how many hours, days and domains it shows, and not on how many messages there are:
//! counts are kept ready. Whatever changes a recipient's state notes the change in a journal, in the same transaction
//! and at the cost of one short row; a roll-up adds many notes up and moves them into the counts at once. So the
//! counts are exact up to the newest roll-up, whatever is interrupted.

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
