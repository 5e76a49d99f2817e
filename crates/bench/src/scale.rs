//! How much of everything.

use std::time::Duration;

use crate::measure::Plan;

/// The size of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Messages in the INBOX that is read.
    pub(crate) messages: usize,
    /// One message in so many has an attachment.
    pub(crate) attachment_every: usize,
    /// One message in so many holds the word that is searched.
    pub(crate) planted_every: usize,
    /// How the measurements go.
    pub(crate) plan: Plan,
    /// Requests in flight when reading.
    pub(crate) concurrency: &'static [usize],
    /// Requests in flight when sending.
    pub(crate) sending_concurrency: &'static [usize],
    /// Octets of the big attachment.
    pub(crate) big_attachment: usize,
    /// Guesses of passwords in flight.
    pub(crate) flood: usize,
    /// Messages that are copied, moved and expunged.
    pub(crate) bulk: usize,
}

/// What the documentation quotes.
pub(crate) const FULL: Scale = Scale {
    messages: 10_000,
    attachment_every: 20,
    planted_every: 500,
    plan: Plan { rounds: 5, window: Duration::from_secs(1), warm_up: Duration::from_millis(500) },
    concurrency: &[1, 16],
    sending_concurrency: &[1, 16, 64],
    big_attachment: 50_000_000,
    flood: 200,
    bulk: 14_000,
};

/// Enough to see that everything works.
pub(crate) const SMOKE: Scale = Scale {
    messages: 200,
    attachment_every: 20,
    planted_every: 20,
    plan: Plan { rounds: 1, window: Duration::from_millis(200), warm_up: Duration::from_millis(50) },
    concurrency: &[4],
    sending_concurrency: &[16],
    big_attachment: 2_000_000,
    flood: 20,
    bulk: 1_000,
};
