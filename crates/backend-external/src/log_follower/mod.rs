//! Delivery status from Postfix's log: follows the log file or systemd's journal.
//!
//! | file | content |
//! |---|---|
//! | `timestamp`, `rfc5424`, `line`, `fact` | a single line: its time, its daemon, its meaning |
//! | `queue_id` | the parts of a queue id |
//! | `message`, `tracked_messages` | the tracked messages, from their first line to `removed` |
//! | `rotated_files`, `opened`, `file_source` | the log file across rename, copy-and-truncate and compression |
//! | `journal_source` | the same from systemd's journal |
//! | `place`, `saved_state`, `stored`, `index` | what survives a restart |
//! | `submitted_ids` | queue ids from the replies at submission, in case the log lost the line |
//! | `follow` | one step: from a cursor to events and the next cursor; the look-up of one message |
//! | `postqueue`, `queue_probe` | whether a message that a crash interrupted is in the queue |
//! | `machine` | when the machine started |
//! | `agents` | the delivery agents that run on this machine |
//! | `sample` | whether a log is Postfix's |
//! | `clock_difference` | how far the log's clock is ahead of this server's |
//! | `hearing` | when Postfix wrote to its log, by this server's clock |
//!
//! # States
//!
//! ```text
//!   start: cursor from the database, saved state from the follower's directory
//!      |
//!      +-- no cursor ------------------------> READING the current file from its beginning
//!      |
//!      +-- state at or before the cursor ----> REPLAYING --- cursor reached ---> READING
//!      |                                          |
//!      |                                          | lines between the two are missing
//!      |                                          v
//!      +-- no state, or after the cursor ----> REBUILDING from older files, up to 256 MiB
//!                                                 |
//!                                                 +-- they go back far enough -----------> READING
//!                                                 +-- they do not -- gap: state_lost ----> READING
//!
//!   READING --- end of the current file ---> WAITING --- notification, or `poll_interval` ---> READING
//!      |
//!      +-- renamed, and the new file has a line ---> the rest of the old file, then the next file ---> READING
//!      |      the old file ends within a line ------ gap: torn_line
//!      |      a number between them is missing ----- gap: rotated_file_missing
//!      |      the numbers count upward ------------- ERROR until the operator renames the files
//!      |
//!      +-- shorter, or other first bytes ---> a copy has the same first bytes (plain or gzip) ---> READING the copy
//!      |      there is no copy --------------------- gap: truncated, then READING the current file
//!      |
//!      +-- after a restart, neither inode nor first bytes are found
//!      |      gap: file_vanished, then READING the oldest file that begins after the newest line read
//!      |
//!      +-- missing or unreadable ---> ERROR until it can be read; the position stays
//! ```
//!
//! REPLAYING and REBUILDING apply lines without reporting their events. In every other state a line is reported once:
//! the reader stores the cursor in the same transaction as the events. The cursor contains the file (device, inode, a
//! hash of its first bytes), the offset, and the time of the newest line. All other state is in the follower's own
//! directory and can be rebuilt from the log.
//!
//! # Was a message accepted?
//!
//! | fact | where | until |
//! |---|---|---|
//! | it is in the queue, or being received | `tracked_messages` | its `removed` line |
//! | it was queued, and under which id | `index` | 7 days |
//! | the reply to its submission had this queue id | `submitted_ids` | the log confirms it in a saved state |
//! | its connection ended; Postfix responded; a listing lacked it | `Lookup` | the answer, at most 7 days |
//! | Postfix wrote to its log | `hearing` | the next line |

mod agents;
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
mod queue_id;
mod queue_probe;
mod report;
mod rfc5424;
mod rotated_files;
mod sample;
mod saved_state;
mod settings;
mod source;
mod stored;
mod submitted_ids;
#[cfg(test)]
mod tests;

mod timestamp;
mod tracked_messages;
mod waker;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{
    Accepted, Attempt, Awaited, DeliveryFeed, Discarded, FeedBatch, FeedError, InboundLog, LostPart, QueueSize,
};
use mailapi_model::{
    Clock, DeliveryEvent, FeedCursor, InboundEvent, InboundRefusal, MessageId, QueueId, ReceivedMail, Timestamp,
};

use crate::blocking::blocking;
use crate::bounces::ReturnAddress;
use tokio::time::Instant;

use follow::{Follow, Hints, LogOutcome};
use postqueue::Postqueue;
pub(crate) use queue_id::is_queue_id;
use queue_probe::{ProbeResult, QueueProbe, SECOND_LISTING};
use report::Notes;
pub use report::{Gap, GapKind};
pub use sample::LogSample;
pub use settings::{FileSettings, JournalSettings, LogSettings, LogSource};
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
    /// What is known, besides the log, about messages whose submission was interrupted.
    lookups: Mutex<HashMap<MessageId, Lookup>>,
    /// How long losses and look-ups are remembered.
    memory: Duration,
}

/// What is known about a message besides the log.
#[derive(Debug, Clone, Copy, Default)]
struct Lookup {
    hints: Hints,
    /// When the first queue listing without the message began.
    absent_at: Option<Instant>,
    /// When the newest of these was noted.
    noted_at: Option<Timestamp>,
}

/// A piece of the log: a [`FeedBatch`] and mail from outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct LogBatch {
    events: Vec<DeliveryEvent>,
    discarded: Vec<Discarded>,
    /// Oldest first. Refused mail may be for foreign domains, which the counter has to ignore.
    inbound: Vec<InboundEvent>,
    refusals: Vec<InboundRefusal>,
    received: Vec<ReceivedMail>,
    cursor: FeedCursor,
    lines_read: u64,
    more: bool,
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
    /// When the log was last read without an error.
    read_at: Option<Timestamp>,
    /// Whether lines were left unread then.
    is_behind: bool,
    /// The time of Postfix's newest line.
    pub last_line_at: Option<Timestamp>,
    /// How many messages were dropped because there were too many to track.
    pub forgotten_messages: u64,
    /// The parts of the log that are known to be missing, oldest first.
    pub gaps: Vec<Gap>,
    /// Seconds by which the log's clock is ahead of this server's; negative if it is behind. Log times are corrected
    /// by this.
    pub clock_ahead: i64,
}

/// Returns why the rotated log files cannot be read in order, and the remedy; `None` if they can, or for a journal.
#[must_use]
pub fn rotation_disorder(settings: &LogSettings) -> Option<&'static str> {
    let LogSource::File(file) = &settings.source else { return None };
    rotated_files::log_files(file).ok().and_then(|files| rotated_files::disorder(&files))
}

/// Returns the number of messages in the mail server's queue; `None` without a command that lists it.
pub async fn queue_length(settings: &LogSettings) -> Option<Result<usize, String>> {
    let listing = Postqueue::new(settings)?.begun_after(Instant::now()).await;
    Some(listing.map(|listing| listing.messages.len()))
}

impl FollowerStatus {
    fn new(last_line_at: Option<Timestamp>, notes: &Notes) -> Self {
        let Notes { gaps, forgotten, clock_ahead, .. } = notes;
        let (gaps, clock_ahead) = (gaps.clone(), clock_ahead / 1000);
        let forgotten_messages = *forgotten;
        Self { error: None, read_at: None, is_behind: false, last_line_at, forgotten_messages, gaps, clock_ahead }
    }

    /// Returns the status in the saved state, for other processes, which must not change that state. `None` if there
    /// is none yet.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn saved(settings: &LogSettings) -> std::io::Result<Option<Self>> {
        let saved = saved_state::load(&settings.state_dir)?;
        Ok(saved.map(|saved| Self::new(saved.tracked.last_at, &saved.notes)))
    }

    /// Returns how far reading is behind at `now`; `None` before the first read.
    #[must_use]
    pub fn lag(&self, now: Timestamp) -> Option<Duration> {
        let read_at = self.read_at?;
        let is_behind = self.is_behind || self.error.is_some();
        Some(if is_behind { now.since(self.last_line_at.unwrap_or(read_at)) } else { Duration::ZERO })
    }

    /// Returns the number of losses that are not among `known`. Merged gaps were counted one by one.
    #[must_use]
    pub fn losses_besides(&self, known: &[Gap]) -> usize {
        let is_known =
            |gap: &Gap| known.iter().any(|known| (known.at, known.from, known.kind) == (gap.at, gap.from, gap.kind));
        let single = self.gaps.iter().filter(|gap| gap.kind.is_loss() && gap.kind != GapKind::Incomplete);
        single.filter(|gap| !is_known(gap)).count()
    }

    /// Returns permanent losses noticed within `lately`, as first noticed. A loss may get a later end.
    fn lost_parts(&self, now: Timestamp, lately: Duration) -> Vec<LostPart> {
        let recent = self.gaps.iter().filter(|gap| gap.kind.is_loss() && now.since(gap.at) < lately);
        // Merged gaps were reported one by one.
        let single = recent.filter(|gap| gap.kind != GapKind::Incomplete);
        let part = |gap: &Gap| LostPart {
            at: gap.at,
            from: Some(gap.from).filter(|from| from.as_millis() > 0),
            to: gap.at.min(gap.to),
            reason: gap.kind.as_str(),
        };
        single.map(part).collect()
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
#[error("{0}")]
pub struct FollowerError(String);

impl FollowerError {
    fn missing(path: &Path) -> Self {
        Self(format!("there is no log at {}", path.display()))
    }

    /// Wraps an error of a file or program.
    fn of(what: impl fmt::Display, error: &std::io::Error) -> Self {
        Self(format!("{what}: {error}"))
    }
}

impl From<std::io::Error> for FollowerError {
    fn from(error: std::io::Error) -> Self {
        Self::of("the log follower's state cannot be read or saved", &error)
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
        let (submitted_ids, status) = (follow.submitted_ids(), Mutex::new(follow.status()));
        let (follow, status) = (Arc::new(Mutex::new(follow)), Arc::new(status));
        let (inbound_log, lookups) = (None, Mutex::default());
        Ok(Self { follow, status, waker, clock, name, inbound_log, submitted_ids, queue_probe, lookups, memory })
    }

    /// Also reports mail from outside, after the reader has stored the events of the same lines. A crash between the
    /// two only makes a count too small.
    #[must_use]
    pub fn with_inbound_log(self, inbound_log: Arc<dyn InboundLog>) -> Self {
        Self { inbound_log: Some(inbound_log), ..self }
    }

    async fn read(&self, cursor: &FeedCursor, max: usize) -> Result<LogBatch, FollowerError> {
        let (cursor, status, read_at) = (cursor.clone(), self.status.clone(), self.clock.now());
        self.with_follow(move |follow| {
            let batch = follow.read(&cursor, max);
            let mut now = follow.status();
            now.error = batch.as_ref().err().map(ToString::to_string).or(now.error).or_else(|| follow.unheard());
            let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
            now.read_at = batch.as_ref().map_or(status.read_at, |_| Some(read_at));
            now.is_behind = batch.as_ref().is_ok_and(|batch| batch.more);
            *status = now;
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
            LogOutcome::Decided(found) => found,
            LogOutcome::Interrupted(entered) => self.ask_queue(attempt, &entered).await?,
        };
        if matches!(found, LookupResult::Taken(_) | LookupResult::NotTaken) {
            self.lookups().remove(&attempt.message_id);
        }
        Ok(found)
    }

    async fn look(&self, attempt: &Attempt) -> Result<LogOutcome, FollowerError> {
        let (hints, attempt) = (self.lookup(attempt.message_id).hints, attempt.clone());
        self.with_follow(move |follow| follow.find(&attempt, hints)).await
    }

    async fn ask_queue(&self, attempt: &Attempt, entered: &[Accepted]) -> Result<LookupResult, FollowerError> {
        let absent_at = self.lookup(attempt.message_id).absent_at;
        let probed = self.queue_probe.look(attempt, entered, absent_at, &self.submitted_ids).await;
        let (begun, suspects) = match probed.map_err(FollowerError)? {
            ProbeResult::Here(accepted) => return Ok(LookupResult::Taken(accepted)),
            ProbeResult::Open(why) => return Ok(LookupResult::Undecided(why)),
            ProbeResult::Absent { begun, suspects } => (begun, suspects),
        };
        if !self.with_follow(move |follow| Ok(follow.are_named(&suspects))).await? {
            self.note(attempt.message_id, |lookup| lookup.absent_at = None);
            return Ok(LookupResult::Undecided(
                "a message in the queue that the log does not identify may be this one",
            ));
        }
        if absent_at.is_none() {
            self.note(attempt.message_id, |lookup| lookup.absent_at = Some(begun));
            return Ok(LookupResult::Undecided(SECOND_LISTING));
        }
        // A message that left the queue meanwhile has left lines in the log.
        Ok(match self.look(attempt).await? {
            LogOutcome::Decided(found) => found,
            LogOutcome::Interrupted(_) => LookupResult::NotTaken,
        })
    }

    /// Notes that the connection that submitted this message ended just now without a reply.
    pub(crate) fn note_lost(&self, message_id: MessageId) {
        let now = self.clock.now();
        self.note(message_id, |lookup| lookup.hints.ended = Some(now));
    }

    /// Notes that the mail server responds just now, when checked for this message.
    pub(crate) fn note_alive(&self, message_id: MessageId) {
        let now = self.clock.now();
        self.note(message_id, |lookup| lookup.hints.alive = Some(now));
    }

    fn note(&self, message_id: MessageId, change: impl FnOnce(&mut Lookup)) {
        let now = self.clock.now();
        let mut lookups = self.lookups();
        lookups.retain(|_, lookup| lookup.noted_at.is_some_and(|at| now.since(at) < self.memory));
        let lookup = lookups.entry(message_id).or_default();
        lookup.noted_at = Some(now);
        change(lookup);
    }

    fn lookup(&self, message_id: MessageId) -> Lookup {
        self.lookups().get(&message_id).copied().unwrap_or_default()
    }

    fn lookups(&self) -> MutexGuard<'_, HashMap<MessageId, Lookup>> {
        self.lookups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the submitted messages with these queue ids and senders, as far as they are known.
    pub(crate) async fn identify(
        &self,
        queued: Vec<(QueueId, String)>,
    ) -> Result<Vec<Option<MessageId>>, FollowerError> {
        let (submitted_ids, now) = (self.submitted_ids.clone(), self.clock.now());
        self.with_follow(move |follow| {
            let identify = |(queue_id, sender): (QueueId, String)| {
                let by_address = || submitted_ids.of_return_address(&sender.parse().ok()?);
                let by_id = || follow.message_of(&queue_id.0).or_else(|| submitted_ids.get(&queue_id.0, now));
                by_address().or_else(by_id)
            };
            Ok(queued.into_iter().map(identify).collect())
        })
        .await
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

    /// Returns the permanent losses that the follower still remembers.
    #[must_use]
    pub fn lost_parts(&self) -> Vec<LostPart> {
        self.status().lost_parts(self.clock.now(), self.memory)
    }

    /// Runs work on a blocking thread, since reading files blocks.
    async fn with_follow<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Follow) -> Result<T, FollowerError> + Send + 'static,
    ) -> Result<T, FollowerError> {
        let follow = self.follow.clone();
        let done = blocking(move || work(&mut follow.lock().unwrap_or_else(PoisonError::into_inner)));
        done.await.unwrap_or_else(|| Err(FollowerError("the task was interrupted".to_owned())))
    }
}

#[async_trait]
impl DeliveryFeed for LogFollower {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError> {
        let LogBatch { events, discarded, inbound: _, refusals: _, received, cursor, lines_read, more } =
            self.read(cursor, max).await.map_err(|error| FeedError(error.to_string()))?;
        Ok(FeedBatch { events, discarded, received, cursor, lines_read, more, ..FeedBatch::default() })
    }

    async fn forget_until(&self, cursor: &FeedCursor) -> Result<(), FeedError> {
        let cursor = cursor.clone();
        let stored = self.with_follow(move |follow| {
            follow.forget_until(&cursor)?;
            Ok(follow.take_inbound_until(&cursor))
        });
        let (inbound, refusals) = stored.await.map_err(|error| FeedError(error.to_string()))?;
        if let Some(log) = &self.inbound_log {
            inbound.into_iter().for_each(|event| log.note(event));
            refusals.into_iter().for_each(|refusal| log.refused(refusal));
        }
        Ok(())
    }

    async fn stop(&self) -> Result<(), FeedError> {
        self.with_follow(Follow::stop).await.map_err(|error| FeedError(error.to_string()))
    }

    async fn changed(&self) {
        self.waker.changed().await;
    }

    async fn are_awaited(&self, recipients: &[Awaited]) -> Result<Vec<bool>, FeedError> {
        let messages: Vec<MessageId> = recipients.iter().map(|awaited| awaited.message_id).collect();
        let awaited = self.with_follow(move |follow| Ok(follow.are_awaited(&messages))).await;
        awaited.map_err(|error| FeedError(error.to_string()))
    }

    /// All messages are in memory, so none is left out.
    async fn queue(&self, _: usize) -> Result<Option<QueueSize>, FeedError> {
        let size = self.with_follow(|follow| Ok(follow.queue_size())).await;
        size.map_err(|error| FeedError(error.to_string()))
    }
}
