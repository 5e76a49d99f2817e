//! The follower's findings other than deliveries.

use std::fmt;

use mailapi_backend::Discarded;
use mailapi_model::{
    DeliveryEvent, EmailAddress, InboundEvent, InboundRefusal, MessageId, QueueId, ReceivedMail, Reply, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::stored;

/// The detail of merged gaps.
const MERGED: &str = "several gaps, merged";

/// A submitted message that the mail server accepted, for the index that [`super::LogFollower::find`] queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    /// When it entered the queue.
    pub(super) at: Timestamp,
    /// The identifier that this service assigned.
    pub(super) message_id: MessageId,
    /// The queue id that the mail server assigned.
    pub(super) queue_id: QueueId,
    /// The recipients that the mail server refused, with their replies.
    pub(super) refused: Vec<(EmailAddress, Reply)>,
}

/// The results of one line.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) events: Vec<DeliveryEvent>,
    pub(super) discarded: Vec<Discarded>,
    pub(super) inbound: Vec<InboundEvent>,
    pub(super) refusals: Vec<InboundRefusal>,
    pub(super) received: Vec<ReceivedMail>,
    pub(super) taken: Vec<Taken>,
    /// A crash of Postfix before this line.
    pub(super) crash: Option<Crash>,
    /// The time of the first line of a queued message that no line identifies. It may be one that a caller looks up.
    pub(super) unnamed_at: Option<Timestamp>,
}

/// A start of Postfix without a preceding stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crash {
    /// The instance.
    pub(super) instance: String,
    /// Whether `postfix stop` had announced it.
    pub(super) was_announced: bool,
    /// The time of the newest line before the start.
    pub(super) from: Timestamp,
    /// When it started.
    pub(super) to: Timestamp,
}

/// Findings that do not concern a single message and have to survive a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Notes {
    /// Oldest first.
    pub(super) gaps: Vec<Gap>,
    /// When the newest unidentified message appeared in the queue. Any of them may be a message submitted before it
    /// appeared, so the newest one represents all.
    #[serde(with = "stored")]
    pub(super) unnamed_at: Option<Timestamp>,
    /// How many messages were dropped because there were too many.
    pub(super) forgotten: u64,
    /// Milliseconds by which the log's clock is ahead of this server's.
    pub(super) clock_ahead: i64,
}

impl Notes {
    pub(super) fn note_unnamed(&mut self, at: Option<Timestamp>) {
        self.unnamed_at = self.unnamed_at.max(at);
    }
}

/// A missing part of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// When it was noticed.
    #[serde(with = "stored")]
    pub at: Timestamp,
    /// The time of the newest line before it; zero if there is none.
    #[serde(with = "stored")]
    pub from: Timestamp,
    /// The time of the first line after it, or when it was noticed.
    #[serde(with = "stored")]
    pub to: Timestamp,
    /// What happened.
    pub kind: GapKind,
    /// Details for the operator: file names and positions, no mail.
    pub detail: String,
}

impl Gap {
    /// Returns a gap that covers both, and everything in between.
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

/// How a part of the log was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapKind {
    /// The file that was being read is gone, without a rotated or compressed copy.
    FileVanished,
    /// The file was truncated, and there is no copy of its content.
    Truncated,
    /// A file is missing between two rotated files.
    RotatedFileMissing,
    /// A file ends within a line.
    TornLine,
    /// The journal no longer has the entry that was read last: later entries may have been removed too.
    JournalVacuumed,
    /// The journal, or a syslog daemon, dropped lines because there were too many.
    RateLimited,
    /// Postfix started without having stopped before. Its last lines may be missing, and those of a logger that died
    /// with it.
    MailServerCrashed,
    /// Postfix was stopped normally, and its logger with it: the very last lines may be missing. This needs no
    /// action, but a message submitted at that moment may not be in the log.
    MailServerStopped,
    /// Postfix crashed, and the machine restarted since: data that was not yet written to disk is lost too.
    HostRestarted,
    /// The follower's state was lost or too old, and the log does not go back far enough. Messages that were in the
    /// queue then may not be recognised.
    StateLost,
    /// Merged gaps of several kinds.
    Incomplete,
}

impl GapKind {
    /// Whether more than the last lines at a normal stop may be lost.
    #[must_use]
    pub(crate) const fn is_loss(self) -> bool {
        !matches!(self, Self::MailServerStopped)
    }

    /// Returns the name in health reports.
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
