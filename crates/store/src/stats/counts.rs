//! What is counted, and the only rule of what a recipient counts as.

use mailapi_model::RecipientStatus;

use crate::StoreError;
use crate::db::Row;

/// Recipients of sent mail, each in its present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentCounts {
    /// Handed over to the mail server; the delivered, bounced and deferred are among them.
    pub sent: u64,
    /// Delivered, or taken over by the next mail server.
    pub delivered: u64,
    /// Given back as undeliverable.
    pub bounced: u64,
    /// Tried at least once, and to be tried again.
    pub deferred: u64,
    /// Refused by the mail server at submission, so never handed over.
    pub rejected: u64,
}

impl SentCounts {
    /// Adds another group of recipients.
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

/// By how much counts change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SentDelta {
    pub(super) sent: i64,
    pub(super) delivered: i64,
    pub(super) bounced: i64,
    pub(super) deferred: i64,
    pub(super) rejected: i64,
}

impl SentDelta {
    /// What one recipient counts as. Who is not handed over yet, or never was for lack of a mail server, is not
    /// counted at all.
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
