//! The counts, and the only rule that maps a recipient's state to them.

use mailapi_model::RecipientStatus;

use crate::StoreError;
use crate::db::Row;

/// Numbers of recipients of sent mail, by their present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentCounts {
    /// Submitted to the mail server; includes the delivered, bounced and deferred ones.
    pub sent: u64,
    /// Delivered, or accepted by the next mail server.
    pub delivered: u64,
    /// Returned as undeliverable.
    pub bounced: u64,
    /// Attempted at least once, to be retried.
    pub deferred: u64,
    /// Rejected by the mail server at submission, so never submitted.
    pub rejected: u64,
}

impl SentCounts {
    /// Adds the counts of another group of recipients.
    pub const fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.bounced += other.bounced;
        self.deferred += other.deferred;
        self.rejected += other.rejected;
    }

    pub(super) fn read(row: &mut Row) -> Result<Self, StoreError> {
        Ok(Self {
            sent: row.unsigned()?,
            delivered: row.unsigned()?,
            bounced: row.unsigned()?,
            deferred: row.unsigned()?,
            rejected: row.unsigned()?,
        })
    }
}

/// Changes of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SentDelta {
    pub(super) sent: i64,
    pub(super) delivered: i64,
    pub(super) bounced: i64,
    pub(super) deferred: i64,
    pub(super) rejected: i64,
}

impl SentDelta {
    /// Returns what one recipient counts as. Recipients that are not yet submitted, or failed without a
    /// rejection, are not counted.
    pub(super) fn of(status: RecipientStatus, refused: bool) -> Self {
        let submitted = Self { sent: 1, ..Self::default() };
        match status {
            _ if refused => Self { rejected: 1, ..Self::default() },
            RecipientStatus::Pending | RecipientStatus::Failed => Self::default(),
            RecipientStatus::Submitted => submitted,
            RecipientStatus::Deferred => Self { deferred: 1, ..submitted },
            RecipientStatus::Sent => Self { delivered: 1, ..submitted },
            RecipientStatus::Bounced => Self { bounced: 1, ..submitted },
        }
    }

    pub(super) const fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.bounced += other.bounced;
        self.deferred += other.deferred;
        self.rejected += other.rejected;
    }

    pub(super) const fn take(&mut self, other: Self) {
        self.sent -= other.sent;
        self.delivered -= other.delivered;
        self.bounced -= other.bounced;
        self.deferred -= other.deferred;
        self.rejected -= other.rejected;
    }
}
