//! What the follower tells besides deliveries.

use mailapi_model::{DeliveryEvent, EmailAddress, InboundEvent, MessageId, QueueId, Reply, Timestamp};

/// That the mail server has one of our messages, for the index that [`super::LogFollower::find`] asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    /// When it entered the queue.
    pub(super) at: Timestamp,
    /// Ours.
    pub(super) message_id: MessageId,
    /// The mail server's.
    pub(super) queue_id: QueueId,
    /// The recipients that it refused, with their replies.
    pub(super) refused: Vec<(EmailAddress, Reply)>,
}

/// What one line leads to.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) events: Vec<DeliveryEvent>,
    pub(super) inbound: Vec<InboundEvent>,
    pub(super) taken: Vec<Taken>,
    /// That lines before this one may be missing, and why.
    pub(super) gap: Option<(GapKind, String)>,
}

/// Something that the log should have told and did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// When it was noticed.
    pub at: Timestamp,
    /// What happened.
    pub kind: GapKind,
    /// Details for the operator: file names and places, no mail.
    pub detail: String,
}

/// How a piece of the log got lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GapKind {
    /// The file that was being read is gone, and no rotated or compressed copy of it is there.
    FileVanished,
    /// The file was cut, and no copy of what it held is there.
    Truncated,
    /// Between two rotated files one is missing.
    RotatedFileMissing,
    /// A file ends in the middle of a line.
    TornLine,
    /// The journal no longer has the entry that was read last: entries may have been discarded.
    JournalVacuumed,
    /// The journal, or a syslog daemon, dropped lines because there were too many.
    RateLimited,
    /// Postfix started without having stopped before. What it, and a logger that died with it, did last may not have
    /// been written.
    MailServerCrashed,
}

impl GapKind {
    pub(super) const ALL: [Self; 7] = [
        Self::FileVanished,
        Self::Truncated,
        Self::RotatedFileMissing,
        Self::TornLine,
        Self::JournalVacuumed,
        Self::RateLimited,
        Self::MailServerCrashed,
    ];

    /// The name in a saved state and in health reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileVanished => "file_vanished",
            Self::Truncated => "truncated",
            Self::RotatedFileMissing => "rotated_file_missing",
            Self::TornLine => "torn_line",
            Self::JournalVacuumed => "journal_vacuumed",
            Self::RateLimited => "rate_limited",
            Self::MailServerCrashed => "mail_server_crashed",
        }
    }
}
