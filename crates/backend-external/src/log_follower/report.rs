//! What the follower tells besides deliveries.

use std::fmt;

use mailapi_backend::Discarded;
use mailapi_model::{DeliveryEvent, EmailAddress, InboundEvent, MessageId, QueueId, Reply, Timestamp};

/// What is left to say of gaps that became one.
const MERGED: &str = "several gaps, no longer remembered one by one";

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
    pub(super) discarded: Vec<Discarded>,
    pub(super) inbound: Vec<InboundEvent>,
    pub(super) taken: Vec<Taken>,
    /// That Postfix ended before this line without saying so itself.
    pub(super) crash: Option<Crash>,
    /// When the first line was written of a message in the queue of which nothing tells whose it is: it may be one that
    /// somebody asks for.
    pub(super) unnamed_at: Option<Timestamp>,
}

/// Postfix started without having stopped before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crash {
    /// Which instance.
    pub(super) instance: String,
    /// Whether `postfix stop` had said that it would end.
    pub(super) was_announced: bool,
    /// When the newest line before the start was written.
    pub(super) from: Timestamp,
    /// When it started.
    pub(super) to: Timestamp,
}

/// What was noticed besides messages, and has to outlive a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Notes {
    /// Oldest first.
    pub(super) gaps: Vec<Gap>,
    /// When the newest message appeared in the queue of which nothing told whose it is. Any of them may be one that was
    /// handed over before it appeared, so the newest one stands for all.
    pub(super) unnamed_at: Option<Timestamp>,
    /// How many messages were forgotten because there were too many.
    pub(super) forgotten: u64,
    /// Milliseconds by which the log's clock is ahead of ours.
    pub(super) clock_ahead: i64,
}

impl Notes {
    pub(super) fn note_unnamed(&mut self, at: Option<Timestamp>) {
        self.unnamed_at = self.unnamed_at.max(at);
    }
}

/// Something that the log should have told and did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// When it was noticed.
    pub at: Timestamp,
    /// When the newest line before it was written; the beginning of time when there is none.
    pub from: Timestamp,
    /// When the first line behind it was written, or it was noticed.
    pub to: Timestamp,
    /// What happened.
    pub kind: GapKind,
    /// Details for the operator: file names and places, no mail.
    pub detail: String,
}

impl Gap {
    /// One that covers both, and all that lies between them.
    pub(super) fn merged(self, other: Self) -> Self {
        Self {
            at: self.at.max(other.at),
            from: self.from.min(other.from),
            to: self.to.max(other.to),
            kind: if self.kind == other.kind { self.kind } else { GapKind::Incomplete },
            detail: MERGED.to_owned(),
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, kind, detail, .. } = self;
        write!(f, "from {from} to {to}: {} ({detail})", kind.as_str())
    }
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
    /// Postfix was stopped as it should be, and its logger with it: it may have swallowed the very last lines. Nothing to
    /// worry an operator with, but a message that was being handed over just then may not be in the log.
    MailServerStopped,
    /// Postfix crashed, and the machine started since: what the system had not yet written to the disk is lost, too.
    HostRestarted,
    /// The follower's state was lost or too old, and the log no longer goes back far enough. Messages that were in the
    /// queue then may not be recognised.
    StateLost,
    /// Gaps of several kinds that are remembered as one, since there were too many.
    Incomplete,
}

impl GapKind {
    pub(super) const ALL: [Self; 11] = [
        Self::FileVanished,
        Self::Truncated,
        Self::RotatedFileMissing,
        Self::TornLine,
        Self::JournalVacuumed,
        Self::RateLimited,
        Self::MailServerCrashed,
        Self::MailServerStopped,
        Self::HostRestarted,
        Self::StateLost,
        Self::Incomplete,
    ];

    /// Whether more than a mail server's last words may be lost.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        !matches!(self, Self::MailServerStopped)
    }

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
            Self::MailServerStopped => "mail_server_stopped",
            Self::HostRestarted => "host_restarted",
            Self::StateLost => "state_lost",
            Self::Incomplete => "incomplete",
        }
    }
}
