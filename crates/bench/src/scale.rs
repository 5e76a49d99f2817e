//! Sizes of the measurements.

use std::time::Duration;

use crate::measure::Plan;

/// The size of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Number of messages in the INBOX that is read.
    pub(crate) messages: usize,
    /// One in this many messages has an attachment.
    pub(crate) attachment_every: usize,
    /// One in this many messages contains the searched word.
    pub(crate) planted_every: usize,
    /// Number and length of the measurements.
    pub(crate) plan: Plan,
    /// Requests in flight when reading.
    pub(crate) concurrency: &'static [usize],
    /// Requests in flight when sending.
    pub(crate) sending_concurrency: &'static [usize],
    /// Size of the big attachment in bytes.
    pub(crate) big_attachment: usize,
    /// Number of password guesses in flight.
    pub(crate) flood: usize,
    /// Number of messages that are copied, moved and expunged.
    pub(crate) bulk: usize,
    /// Number of expired rows of the largest table that is pruned.
    pub(crate) pruned: usize,
    /// Events per second for webhooks, two for each message.
    pub(crate) webhook_events: u32,
    /// The time for which a receiver hangs. An attempt ends after 15 seconds.
    pub(crate) hang: Duration,
}

/// The scale of the figures in the documentation.
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
    pruned: 1_000_000,
    webhook_events: 500,
    hang: Duration::from_secs(30),
};

/// A scale to verify that everything works.
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
    pruned: 4_000,
    webhook_events: 60,
    hang: Duration::from_secs(1),
};
