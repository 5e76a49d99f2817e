//! Delivery status from Postfix's log: follows the log file or systemd's journal.
//!
//! | file | content |
//! |---|---|
//! | `timestamp`, `rfc5424`, `line`, `fact` | a single line: its time, its daemon, its meaning |
//! | `message`, `tracked_messages` | the tracked messages, from their first line to `removed` |
//! | `rotated_files`, `opened`, `file_source` | the log file across rename, copy-and-truncate and compression |
//! | `journal_source` | the same from systemd's journal |
//! | `place`, `saved_state`, `index` | what survives a restart |
//! | `submitted_ids` | queue ids from the replies at submission, in case the log lost the line |
//! | `follow` | one step: from a cursor to events and the next cursor; the look-up of one message |
//! | `postqueue`, `queue_probe` | whether a message that a crash interrupted is in the queue |
//! | `machine` | when the machine started |
//! | `sample` | whether a log is Postfix's |
//! | `clock_difference` | how far the log's clock is ahead of this server's |
//! | `hearing` | when Postfix wrote to its log, by this server's clock |
//!
//! The reader stores the cursor in the same transaction as the events. The cursor contains the file (device, inode, a
//! hash of its first bytes), the offset, and the time of the newest line. All other state is in the follower's own
//! directory and can be rebuilt from the log.

mod clock_difference;
mod fact;
mod file_source;
mod follow;
mod hearing;
mod index;
mod journal_source;
mod line;
mod machine;
mod message;
mod opened;
mod place;
mod postqueue;
mod queue_probe;
mod report;
mod rfc5424;
mod rotated_files;
mod sample;
mod saved_state;
mod settings;
mod source;
mod submitted_ids;
#[cfg(test)]
mod tests;
mod text_record;
mod timestamp;
mod tracked_messages;
mod waker;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Accepted, Attempt, DeliveryFeed, Discarded, FeedBatch, FeedError, InboundLog};
use mailapi_model::{Clock, DeliveryEvent, FeedCursor, InboundEvent, MessageId, QueueId, Timestamp};

use crate::bounces::ReturnAddress;
use tokio::time::Instant;

use follow::{Follow, Hints, LogOutcome, Snapshot};
use postqueue::Postqueue;
use queue_probe::{ProbeResult, QueueProbe};
pub use report::{Gap, GapKind};
pub use sample::LogSample;
use saved_state::Saved;
pub use settings::{FileSettings, JournalSettings, LogSettings, LogSource, TrackingLimits};
use source::SourceError;
use submitted_ids::SubmittedIds;
use waker::Waker;

/// Follows Postfix's log.
///
/// It keeps one position open, for a single reader. A second reader (a manual sync) only costs time.
pub struct LogFollower {
    follow: Arc<Mutex<Follow>>,
    status: Arc<Mutex<FollowerStatus>>,
    waker: Waker,
    clock: Arc<dyn Clock>,
    name: String,
    inbound_log: Option<Arc<dyn InboundLog>>,
    submitted_ids: Arc<SubmittedIds>,
    queue_probe: QueueProbe,
    /// Hints about messages whose submission was interrupted.
    hints: Mutex<HashMap<MessageId, Hints>>,
    /// How long losses are remembered.
    memory: Duration,
}

/// A piece of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogBatch {
    /// Delivery events, oldest first.
    pub events: Vec<DeliveryEvent>,
    /// Submitted messages that were discarded, oldest first.
    pub discarded: Vec<Discarded>,
    /// Mail from outside, oldest first. Refused mail may be for foreign domains, which the counter has to ignore.
    pub inbound: Vec<InboundEvent>,
    /// Where to continue.
    pub cursor: FeedCursor,
    /// How many lines were read.
    pub lines_read: u64,
    /// Whether more lines may be available now.
    pub more: bool,
}

/// The result of looking up a submitted message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupResult {
    /// The mail server accepted the message.
    Taken(Accepted),
    /// The mail server did not accept the message.
    NotTaken,
    /// The log has no trace of the message, as it would if the mail server were down. Check that the mail server
    /// responds, call `LogFollower::note_alive`, and look up again.
    Silent,
    /// Not decidable yet, or never; the reason.
    Undecided(&'static str),
}

/// The state of a follower for health reports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FollowerStatus {
    /// Why the log could not be read, or why no new lines can come; `None` if all is well.
    pub error: Option<String>,
    /// Whether the log is missing.
    pub is_missing: bool,
    /// When the log was last read.
    pub read_at: Option<Timestamp>,
    /// The time of Postfix's newest line.
    pub last_line_at: Option<Timestamp>,
    /// How many bytes are known to be unread.
    pub unread_bytes: u64,
    /// How many messages are in Postfix's queue, according to the log.
    pub open_messages: usize,
    /// How many messages were dropped because there were too many to track.
    pub forgotten_messages: u64,
    /// The parts of the log that are known to be missing, oldest first.
    pub gaps: Vec<Gap>,
    /// Seconds by which the log's clock is ahead of this server's; negative if it is behind. Log times are corrected
    /// by this.
    pub clock_ahead: i64,
}

/// Returns the number of messages in the mail server's queue; `None` without a command that lists it.
pub async fn queue_length(settings: &LogSettings) -> Option<Result<usize, String>> {
    let listing = Postqueue::new(settings)?.begun_after(Instant::now()).await;
    Some(listing.map(|listing| listing.messages.len()))
}

impl FollowerStatus {
    /// Returns the status in the saved state, for other processes, which must not change that state. `None` if there
    /// is none yet.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn saved(settings: &LogSettings) -> std::io::Result<Option<Self>> {
        let saved = saved_state::load(&settings.state_dir)?;
        Ok(saved.map(|Saved { tracked, notes, .. }| Self {
            last_line_at: tracked.last_at,
            open_messages: tracked.len(),
            forgotten_messages: notes.forgotten,
            gaps: notes.gaps,
            clock_ahead: notes.clock_ahead / 1000,
            ..Self::default()
        }))
    }

    /// Describes permanent losses noticed within `lately`; `None` if there are none.
    #[must_use]
    pub fn losses(&self, now: Timestamp, lately: Duration) -> Option<String> {
        let recent = self.gaps.iter().filter(|gap| gap.kind.is_loss() && now.since(gap.at) < lately);
        let mut losses: Vec<String> = recent.map(ToString::to_string).collect();
        if self.forgotten_messages > 0 {
            losses.push(format!(
                "{} messages in the queue were forgotten, since there were too many",
                self.forgotten_messages
            ));
        }
        (!losses.is_empty()).then(|| losses.join("; "))
    }
}

/// Why the log cannot be followed at the moment. Nothing is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FollowerError {
    reason: String,
    is_missing: bool,
}

impl From<SourceError> for FollowerError {
    fn from(error: SourceError) -> Self {
        Self { is_missing: matches!(error, SourceError::Missing(_)), reason: error.to_string() }
    }
}

impl From<std::io::Error> for FollowerError {
    fn from(error: std::io::Error) -> Self {
        Self { reason: format!("the state of the log follower cannot be kept: {error}"), is_missing: false }
    }
}

impl LogFollower {
    /// Creates a follower. The log need not exist yet.
    ///
    /// # Errors
    /// If the state directory cannot be created or read.
    pub fn new(settings: LogSettings, clock: Arc<dyn Clock>) -> Result<Self, FollowerError> {
        let waker = Waker::new(&settings);
        // A cursor of one source is invalid in another, so the name includes the source.
        let name = match &settings.source {
            LogSource::File(file) => format!("postfix-log:{}", file.path.display()),
            LogSource::Journal(_) => "postfix-journal".to_owned(),
        };
        let (queue_probe, memory) = (QueueProbe::new(&settings), settings.index_lifetime);
        let follow = Follow::new(settings, clock.clone())?;
        let submitted_ids = follow.submitted_ids();
        let Snapshot { gaps, clock_ahead, .. } = follow.snapshot();
        let status = FollowerStatus { gaps, clock_ahead, ..FollowerStatus::default() };
        let (follow, status) = (Arc::new(Mutex::new(follow)), Arc::new(Mutex::new(status)));
        let (inbound_log, hints) = (None, Mutex::default());
        Ok(Self { follow, status, waker, clock, name, inbound_log, submitted_ids, queue_probe, hints, memory })
    }

    /// Also reports mail from outside, after the reader has stored the events of the same lines. A crash between the
    /// two only makes a count too small.
    #[must_use]
    pub fn with_inbound_log(self, inbound_log: Arc<dyn InboundLog>) -> Self {
        Self { inbound_log: Some(inbound_log), ..self }
    }

    /// Returns at most `max` events after `cursor`, with the inbound events of the same lines.
    ///
    /// # Errors
    /// If the log cannot be read; [`LogFollower::status`] then shows the reason too.
    pub async fn read(&self, cursor: &FeedCursor, max: usize) -> Result<LogBatch, FollowerError> {
        let (cursor, status, now) = (cursor.clone(), self.status.clone(), self.clock.now());
        self.with_follow(move |follow| {
            let batch = follow.read(&cursor, max);
            let snapshot = follow.snapshot();
            let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
            status.is_missing = snapshot.missing.is_some() || batch.as_ref().is_err_and(|error| error.is_missing);
            status.error = batch.as_ref().err().map(ToString::to_string).or(snapshot.missing);
            status.error = status.error.take().or_else(|| follow.unheard());
            status.read_at = if batch.is_ok() { Some(now) } else { status.read_at };
            status.last_line_at = snapshot.last_line_at.or(status.last_line_at);
            status.unread_bytes = snapshot.unread_bytes.unwrap_or(status.unread_bytes);
            status.open_messages = snapshot.open_messages;
            status.forgotten_messages = snapshot.forgotten_messages;
            status.gaps = snapshot.gaps;
            status.clock_ahead = snapshot.clock_ahead;
            batch
        })
        .await
    }

    /// Looks up a submitted message in the log up to its end, and in the queue if the log alone is not enough.
    /// Returns [`LookupResult::NotTaken`] only if that is certain.
    ///
    /// # Errors
    /// If the log cannot be read, or the queue cannot be listed.
    pub async fn find(&self, attempt: &Attempt) -> Result<LookupResult, FollowerError> {
        let found = match self.look(attempt).await? {
            LogOutcome::Told(found) => found,
            LogOutcome::Interrupted(entered) => self.ask_queue(attempt, &entered).await?,
        };
        if matches!(found, LookupResult::Taken(_) | LookupResult::NotTaken) {
            self.queue_probe.forget(attempt.message_id);
            self.hints().remove(&attempt.message_id);
        }
        Ok(found)
    }

    async fn look(&self, attempt: &Attempt) -> Result<LogOutcome, FollowerError> {
        let hints = self.hints().get(&attempt.message_id).copied().unwrap_or_default();
        let attempt = attempt.clone();
        self.with_follow(move |follow| follow.find(&attempt, hints)).await
    }

    async fn ask_queue(&self, attempt: &Attempt, entered: &[Accepted]) -> Result<LookupResult, FollowerError> {
        let probed = self.queue_probe.look(attempt, entered, &self.submitted_ids).await;
        match probed.map_err(|reason| FollowerError { reason, is_missing: false })? {
            ProbeResult::Here(accepted) => Ok(LookupResult::Taken(accepted)),
            ProbeResult::Open(why) => Ok(LookupResult::Undecided(why)),
            ProbeResult::Absent { listing, suspects } => {
                if !self.with_follow(move |follow| Ok(follow.are_named(&suspects))).await? {
                    self.queue_probe.forget(attempt.message_id);
                    return Ok(LookupResult::Undecided(
                        "a message in the queue that the log does not name may be this one",
                    ));
                }
                if !self.queue_probe.note_absent(attempt.message_id, &listing) {
                    return Ok(LookupResult::Undecided("the mail server's queue will be looked through once more"));
                }
                // A message that left the queue meanwhile has left lines in the log.
                Ok(match self.look(attempt).await? {
                    LogOutcome::Told(found) => found,
                    LogOutcome::Interrupted(_) => LookupResult::NotTaken,
                })
            }
        }
    }

    /// Notes that the connection that submitted this message ended just now without a reply.
    pub(crate) fn note_lost(&self, message_id: MessageId) {
        let now = self.clock.now();
        self.note(message_id, |hints| hints.ended = Some(now));
    }

    /// Notes that the mail server responds just now, when checked for this message.
    pub(crate) fn note_alive(&self, message_id: MessageId) {
        let now = self.clock.now();
        self.note(message_id, |hints| hints.alive = Some(now));
    }

    fn note(&self, message_id: MessageId, change: impl FnOnce(&mut Hints)) {
        let now = self.clock.now();
        let mut hints = self.hints();
        let is_recent = |at: Option<Timestamp>| at.is_some_and(|at| now.since(at) < self.memory);
        hints.retain(|_, hints| is_recent(hints.ended) || is_recent(hints.alive));
        change(hints.entry(message_id).or_default());
    }

    fn hints(&self) -> MutexGuard<'_, HashMap<MessageId, Hints>> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the return addresses of submitted messages. They identify a message too, and cannot be forged.
    pub fn recognise(&self, returns: ReturnAddress) {
        self.submitted_ids.recognise(returns);
    }

    /// Notes that the mail server accepted a message under this queue id, in case the log loses the line.
    pub fn note_submitted(&self, message_id: MessageId, queue_id: &QueueId) {
        self.submitted_ids.note(queue_id, message_id, self.clock.now());
    }

    /// Returns the status as of the last read.
    #[must_use]
    pub fn status(&self) -> FollowerStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Describes permanent losses, for as long as the follower remembers them.
    #[must_use]
    pub fn losses(&self) -> Option<String> {
        self.status().losses(self.clock.now(), self.memory)
    }

    /// Runs work on a blocking thread, since reading files blocks.
    async fn with_follow<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Follow) -> Result<T, FollowerError> + Send + 'static,
    ) -> Result<T, FollowerError> {
        let follow = self.follow.clone();
        let done =
            tokio::task::spawn_blocking(move || work(&mut follow.lock().unwrap_or_else(PoisonError::into_inner)));
        done.await.unwrap_or_else(|error| Err(FollowerError { reason: error.to_string(), is_missing: false }))
    }
}

#[async_trait]
impl DeliveryFeed for LogFollower {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError> {
        let LogBatch { events, discarded, cursor, lines_read, more, .. } =
            self.read(cursor, max).await.map_err(|error| FeedError(error.to_string()))?;
        Ok(FeedBatch { events, discarded, cursor, lines_read, more })
    }

    async fn forget_until(&self, cursor: &FeedCursor) -> Result<(), FeedError> {
        let cursor = cursor.clone();
        let stored = self.with_follow(move |follow| {
            follow.forget_until(&cursor)?;
            Ok(follow.take_inbound_until(&cursor))
        });
        let inbound = stored.await.map_err(|error| FeedError(error.to_string()))?;
        if let Some(log) = &self.inbound_log {
            inbound.into_iter().for_each(|event| log.note(event));
        }
        Ok(())
    }

    async fn stop(&self) -> Result<(), FeedError> {
        self.with_follow(Follow::stop).await.map_err(|error| FeedError(error.to_string()))
    }

    async fn changed(&self) {
        self.waker.changed().await;
    }
}
