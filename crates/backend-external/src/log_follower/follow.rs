//! One step of following the log: from a cursor to events and the next cursor.
//!
//! The meaning of a line depends on earlier lines, so a position alone is not enough to continue. The state of all
//! tracked messages is saved at intervals, at a position that the reader has already stored. To resume elsewhere, the
//! follower loads the saved state and replays the lines in between without reporting their events. Without a saved
//! state it rebuilds one from older lines.

mod lookup;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::QueueSize;
use mailapi_model::{Clock, DeliveryEvent, FeedCursor, InboundEvent, InboundRefusal, MessageId, QueueId, Timestamp};

use super::agents;
use super::clock_difference::ClockDifference;
use super::file_source::FileLog;
use super::hearing::{HEARING_TIME, Hearing};
use super::index::MessageIndex;
use super::journal_source::JournalSource;
use super::line::{Line, journald_reports_loss, reports_loss};
use super::machine::machine_started_at;
use super::place::{Cursor, Place};
use super::report::{Crash, Findings, Gap, GapKind, Notes, Taken};
use super::saved_state::{self, Saved};
use super::settings::{LogSettings, LogSource};
use super::source::{Next, Record, Source};
use super::submitted_ids::SubmittedIds;
use super::timestamp::TimeReader;
use super::tracked_messages::TrackedMessages;
use super::{FollowerError, FollowerStatus, LogBatch};
pub(super) use lookup::{Hints, LogOutcome};

/// Reason for an undecided result if the log contains no line of Postfix.
const NOTHING_UNDERSTOOD: &str = "the mail server's log contains no line of Postfix that mailapi can parse";

/// The minimum wait until a line that was logged is in the log.
const AGENT_SETTLE_TIME: Duration = Duration::from_secs(3);
/// How much of the log is read again to rebuild a lost state: some minutes of work at most.
const REBUILD_BYTES: u64 = 256 << 20;
/// The size at which a new index file begins, and the maximum number of files; the oldest is removed first.
const INDEX_FILE_BYTES: u64 = 16 << 20;
const MAX_INDEX_FILES: usize = 16;
/// The maximum number of submitted messages that the log has not confirmed.
const MAX_UNCONFIRMED: usize = 10_000;

/// The state of the follower. [`super::LogFollower`] guards it with a lock.
pub(super) struct Follow {
    settings: LogSettings,
    clock: Arc<dyn Clock>,
    submitted_ids: Arc<SubmittedIds>,
    /// Submitted queue ids that the log confirmed since the state was last saved.
    confirmed: Vec<QueueId>,
    times: TimeReader,
    index: MessageIndex,
    live: Option<Live>,
    /// The newest batch and its starting cursor, for a reader that could not store it and asks again.
    last: Option<(FeedCursor, LogBatch)>,
    notes: Notes,
    /// The notes as last saved.
    saved_notes: Notes,
    read_since_save: u64,
    saved_at: Timestamp,
    saved_bytes: u64,
    /// The position at which the state was last saved.
    saved_place: Option<Place>,
    /// The cursor up to which the reader has stored everything.
    stored: Option<Cursor>,
    started_at: Timestamp,
    hearing: Hearing,
    clock_difference: ClockDifference,
    /// Whether the operator was warned that the log has no lines of Postfix.
    is_unheard: bool,
}

/// The current position and state.
struct Live {
    source: Box<dyn Source>,
    tracked: TrackedMessages,
    /// Number of lines of Postfix that were read.
    lines: u64,
    cursor: Cursor,
    /// Events of the newest record that did not fit into a batch.
    pending: VecDeque<DeliveryEvent>,
    /// When this machine's delivery agents were last examined, and a time before which none of them began.
    agents: Option<(Timestamp, Timestamp)>,
}

/// The result of replaying up to a cursor.
enum Replayed {
    /// The cursor was reached. `begun_at` is the time of the first line of Postfix on the way.
    Reached { live: Box<Live>, begun_at: Option<Timestamp> },
    /// A part of the log before the cursor is missing.
    Gap,
    /// The cursor is not in this log.
    Missed,
}

/// The result of one record.
struct Step {
    findings: Findings,
    /// The length of the record.
    bytes: u64,
    /// Whether it is a line of Postfix.
    is_postfix: bool,
}

impl Step {
    /// Every line of Postfix yields findings, even if empty.
    fn new(findings: Option<Findings>, bytes: usize) -> Self {
        Self { is_postfix: findings.is_some(), findings: findings.unwrap_or_default(), bytes: bytes as u64 }
    }
}

impl Live {
    fn new(source: Box<dyn Source>, tracked: TrackedMessages, cursor: &Cursor) -> Self {
        Self { source, tracked, lines: 0, cursor: cursor.clone(), pending: VecDeque::new(), agents: None }
    }

    /// Returns the number of lines of Postfix before the cursor. The line of pending events is after it.
    fn lines_before_cursor(&self) -> u64 {
        self.lines.saturating_sub(u64::from(!self.pending.is_empty()))
    }
}

impl Follow {
    pub(super) fn new(settings: LogSettings, clock: Arc<dyn Clock>) -> io::Result<Self> {
        std::fs::create_dir_all(&settings.state_dir)?;
        let index =
            MessageIndex::new(settings.state_dir.clone(), INDEX_FILE_BYTES, MAX_INDEX_FILES, settings.index_lifetime);
        let saved = saved_state::load(&settings.state_dir)?;
        let (saved_place, notes) =
            saved.map_or_else(Default::default, |saved| (Some(saved.place), saved.notes.into_owned()));
        let now = clock.now();
        let mut times = TimeReader::new(settings.time_zone.clone());
        times.set_ahead(notes.clock_ahead);
        let clock_difference = ClockDifference::new(settings.clock_tolerance);
        Ok(Self {
            times,
            submitted_ids: Arc::new(SubmittedIds::new(settings.reception_time, MAX_UNCONFIRMED)),
            confirmed: Vec::new(),
            settings,
            clock,
            index,
            live: None,
            last: None,
            saved_notes: notes.clone(),
            notes,
            read_since_save: 0,
            saved_at: now,
            saved_bytes: 0,
            saved_place,
            stored: None,
            started_at: now,
            hearing: Hearing::default(),
            clock_difference,
            is_unheard: false,
        })
    }

    /// Returns the map in which queue ids from the mail server's replies are noted.
    pub(super) fn submitted_ids(&self) -> Arc<SubmittedIds> {
        self.submitted_ids.clone()
    }

    /// Returns at most `max` events after `cursor`.
    pub(super) fn read(&mut self, cursor: &FeedCursor, max: usize) -> Result<LogBatch, FollowerError> {
        let max = max.max(1);
        if let Some((from, batch)) = &self.last
            && from == cursor
            && batch.events.len() <= max
        {
            return Ok(batch.clone());
        }
        let mut live = match self.live.take() {
            Some(live) if live.cursor.encode() == *cursor => live,
            _ => self.resume(cursor)?,
        };
        let batch = self.read_on(&mut live, max);
        self.live = Some(live);
        let batch = batch?;
        if batch.cursor != *cursor {
            self.last = Some((cursor.clone(), batch.clone()));
        }
        Ok(batch)
    }

    /// Notes that the reader has stored everything up to `cursor`, and saves the state if it is due.
    pub(super) fn forget_until(&mut self, cursor: &FeedCursor) -> Result<(), FollowerError> {
        let Some(live) = &self.live else { return Ok(()) };
        if !live.pending.is_empty() || live.cursor.encode() != *cursor {
            return Ok(());
        }
        self.stored = Some(live.cursor.clone());
        // A large state is saved less often, so that saving never outweighs reading.
        let due = self.settings.save_every_bytes.max(self.saved_bytes);
        let is_due = self.read_since_save >= due
            || self.notes != self.saved_notes
            || (self.read_since_save > 0 && self.clock.now().since(self.saved_at) >= self.settings.save_interval)
            || (self.read_since_save > 0 && has_left(self.saved_place.as_ref(), &live.cursor.place));
        if is_due { self.save() } else { Ok(()) }
    }

    /// Saves the unsaved state, up to what the reader has stored. Called when reading stops.
    pub(super) fn stop(&mut self) -> Result<(), FollowerError> {
        // A state ahead of the reader's database would lose the events in between.
        let is_stored = self.live.as_ref().is_some_and(|live| self.stored.as_ref() == Some(&live.cursor));
        if is_stored && self.read_since_save > 0 { self.save() } else { Ok(()) }
    }

    fn save(&mut self) -> Result<(), FollowerError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        self.notes.forgotten += live.tracked.forget_stale(self.settings.max_open_messages) as u64;
        // Lines before the saved position are never read again, so their index records must be durable first.
        self.index.sync()?;
        let (place, tracked) = (&live.cursor.place, &live.tracked);
        self.saved_bytes = saved_state::save(&self.settings.state_dir, place, tracked, &self.notes)?;
        self.saved_place = Some(place.clone());
        self.saved_at = self.clock.now();
        self.saved_notes.clone_from(&self.notes);
        self.read_since_save = 0;
        // Only now: until the state is saved, a restart reads these lines again and needs the ids.
        self.submitted_ids.forget(&std::mem::take(&mut self.confirmed));
        Ok(())
    }

    /// Returns the inbound events and refusals of the newest batch, once, after the reader has stored that batch.
    pub(super) fn take_inbound_until(&mut self, cursor: &FeedCursor) -> (Vec<InboundEvent>, Vec<InboundRefusal>) {
        match &mut self.last {
            Some((_, batch)) if batch.cursor == *cursor => {
                (std::mem::take(&mut batch.inbound), std::mem::take(&mut batch.refusals))
            }
            _ => Default::default(),
        }
    }

    /// Returns the state for health reports. A missing file is an error even while an older one is readable.
    pub(super) fn status(&self) -> FollowerStatus {
        let error = match &self.settings.source {
            LogSource::File(file) if !file.path.exists() => Some(FollowerError::missing(&file.path).to_string()),
            _ => None,
        };
        let last_line_at = self.live.as_ref().and_then(|live| live.tracked.last_at);
        FollowerStatus { error, ..FollowerStatus::new(last_line_at, &self.notes) }
    }

    #[cfg(test)]
    pub(super) fn open_messages(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.tracked.len())
    }

    /// Returns a reason if the mail server accepted a message but its log has had no line since. The log then belongs
    /// to another server, has an unknown format, or is no longer written.
    pub(super) fn unheard(&mut self) -> Option<String> {
        let live = self.live.as_ref()?;
        let (now, margin) = (self.clock.now(), self.settings.settle_time);
        let since = self.submitted_ids.unheard_since(|since| self.hearing.heard_since(since.minus(margin)));
        let since = since.filter(|since| now.since(*since) >= HEARING_TIME);
        let reason = since.map(|since| match live.tracked.last_at {
            None => NOTHING_UNDERSTOOD.to_owned(),
            Some(_) => format!("the mail server accepted mail at {since}, but its log has had no line since"),
        });
        if let Some(reason) = reason.as_ref().filter(|_| !self.is_unheard) {
            tracing::warn!(reason, syslog_name = self.settings.syslog_name, "no line of Postfix in the mail log");
        }
        self.is_unheard = reason.is_some();
        reason
    }

    /// Returns whether each message is in the queue according to the log. Unread lines may be about any message.
    pub(super) fn are_awaited(&self, messages: &[MessageId]) -> Vec<bool> {
        let live = self.live.as_ref().filter(|live| live.pending.is_empty() && live.source.unread() == 0);
        let is_awaited = |message_id: &MessageId| live.is_none_or(|live| live.tracked.has(*message_id));
        messages.iter().map(is_awaited).collect()
    }

    /// Returns the submitted message that has this queue id according to the log.
    pub(super) fn message_of(&self, id: &str) -> Option<MessageId> {
        self.live.as_ref()?.tracked.message_of(id)
    }

    /// Returns the size of the queue according to the log; `None` before the log was read.
    pub(super) fn queue_size(&self) -> Option<QueueSize> {
        self.live.as_ref().map(|live| live.tracked.queue_size())
    }

    fn read_on(&mut self, live: &mut Live, max: usize) -> Result<LogBatch, FollowerError> {
        let mut batch = LogBatch::default();
        let begun = self.clock.now();
        let end_seen_at = self.hearing.end_seen_at(live.lines);
        loop {
            while batch.events.len() < max
                && let Some(event) = live.pending.pop_front()
            {
                batch.events.push(event);
                live.cursor.reported += 1;
            }
            if live.pending.is_empty() {
                let place = live.source.place(live.tracked.last_at);
                let quiet_until = live.cursor.quiet_until.filter(|until| live.tracked.last_at < Some(*until));
                live.cursor = Cursor { place, reported: 0, quiet_until };
            }
            batch.more = batch.events.len() >= max || batch.lines_read >= self.settings.max_batch_lines;
            if batch.more {
                break;
            }
            let before = live.tracked.last_at;
            let step = self.step(live.source.as_mut(), &mut live.tracked);
            self.note_gaps(live, before);
            match step {
                Ok(Some(Step { findings, bytes, is_postfix })) => {
                    batch.lines_read += 1;
                    if is_postfix {
                        live.lines += 1;
                        self.hearing.note_line(live.lines, self.clock.now());
                        self.compare_clocks(live.tracked.last_at, end_seen_at, &findings.taken);
                    }
                    self.note_crash(&mut live.tracked, findings.crash);
                    self.notes.note_unnamed(findings.unnamed_at);
                    self.read_since_save += bytes;
                    self.note_taken(&findings.taken);
                    batch.discarded.extend(findings.discarded);
                    batch.inbound.extend(findings.inbound);
                    batch.refusals.extend(findings.refusals);
                    batch.received.extend(findings.received);
                    live.pending.extend(findings.events);
                }
                Ok(None) => {
                    self.hearing.note_end(live.lines, begun);
                    end_attempts_in_silence(live, begun, &mut batch);
                    self.end_attempts_without_agents(live, begun, &mut batch);
                    break;
                }
                // Return what was read; the next call reports the error.
                Err(_) if batch.lines_read > 0 => break,
                Err(error) => return Err(error),
            }
        }
        self.index.write()?;
        batch.cursor = live.cursor.encode();
        Ok(batch)
    }

    /// Ends the attempts whose agents on this machine have ended, once their lines must have arrived.
    fn end_attempts_without_agents(&self, live: &mut Live, now: Timestamp, batch: &mut LogBatch) {
        let Some(queue_managers) = live.tracked.queue_managers_of_left() else { return live.agents = None };
        if let Some((looked_at, began_after)) = live.agents {
            if now.since(looked_at) < self.settings.settle_time.max(AGENT_SETTLE_TIME) {
                return;
            }
            let mut findings = Findings::default();
            let ended = live.tracked.end_attempts_until(began_after, Some(looked_at), &mut findings);
            report_silently(live, ended, findings, batch);
        }
        let began_after = agents::all_began_after(
            &self.settings.machine_state,
            &queue_managers,
            |process, program| live.tracked.result_of(process, program),
            now,
        );
        live.agents = began_after.map(|began_after| (now, began_after));
    }

    /// Reads one record and applies it. Returns `None` at the end.
    fn step(&mut self, source: &mut dyn Source, tracked: &mut TrackedMessages) -> Result<Option<Step>, FollowerError> {
        let before = tracked.last_at;
        let Some(Next { record, is_after_gap }) = source.next(before)? else { return Ok(None) };
        if is_after_gap {
            tracked.note_gap();
        }
        match record {
            Record::Line(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                // A file that was truncated while its writer kept its offset begins with zeros.
                let text = text.trim_start_matches('\0');
                let now = self.clock.now();
                let findings = match Line::of_file(text, &self.settings.syslog_name, &mut self.times, now, before) {
                    Some(line) => Some(self.take_in(tracked, &line)?),
                    None => {
                        if reports_loss(text, &self.settings.syslog_name, &mut self.times, now, before) {
                            tracked.note_gap();
                            note_dropped(&mut self.notes.gaps, &self.settings, now, before);
                        }
                        None
                    }
                };
                Ok(Some(Step::new(findings, bytes.len() + 1)))
            }
            Record::Entry { at, tag, message } => {
                let at = self.times.by_our_clock(at);
                let line = Line::of_tag(at, tag, message, &self.settings.syslog_name);
                let findings = line.map(|line| self.take_in(tracked, &line)).transpose()?;
                Ok(Some(Step::new(findings, message.len())))
            }
            Record::Dropped(message) => {
                if journald_reports_loss(message, &self.settings.syslog_name) {
                    tracked.note_gap();
                    note_dropped(&mut self.notes.gaps, &self.settings, self.clock.now(), before);
                }
                Ok(Some(Step::new(None, message.len())))
            }
        }
    }

    fn take_in(&mut self, tracked: &mut TrackedMessages, line: &Line<'_>) -> Result<Findings, FollowerError> {
        let findings = tracked.apply(line, &self.submitted_ids, &mut self.index);
        let mut findings = findings.map_err(|error| FollowerError::of(self.settings.state_dir.display(), &error))?;
        tracked.conclude_deletion(line, self.settings.retry_time, &self.notes.gaps, &mut findings);
        Ok(findings)
    }

    /// Notes the gaps that the source found after the line written at `before`. Returns whether there are any.
    fn note_gaps(&mut self, live: &mut Live, before: Option<Timestamp>) -> bool {
        let gaps = live.source.take_gaps();
        let has_gaps = !gaps.is_empty();
        if has_gaps {
            live.tracked.note_gap();
        }
        for (kind, detail) in gaps {
            note_gap(&mut self.notes.gaps, &self.settings, gap_until(self.clock.now(), before, kind, detail));
        }
        has_gaps
    }

    fn note_crash(&mut self, tracked: &mut TrackedMessages, crash: Option<Crash>) {
        if let Some(crash) = crash {
            let instance = crash.instance.clone();
            let gap = self.gap_of(crash);
            if gap.kind == GapKind::HostRestarted {
                tracked.forget_inodes(&instance);
            }
            note_gap(&mut self.notes.gaps, &self.settings, gap);
        }
    }

    /// Converts a crash to a gap. If the machine restarted since the newest line, the file system may have lost more
    /// than the last lines. A later restart hides an earlier one, so it counts as well.
    fn gap_of(&self, crash: Crash) -> Gap {
        let Crash { instance, was_announced, from, to } = crash;
        let restarted = || machine_started_at(&self.settings.machine_state).is_some_and(|started| started > from);
        let kind = match was_announced {
            true => GapKind::MailServerStopped,
            false if restarted() => GapKind::HostRestarted,
            false => GapKind::MailServerCrashed,
        };
        Gap { at: self.clock.now(), from, to, kind, detail: format!("{instance} started without having logged a stop") }
    }

    /// Compares the log's clock with this server's by a line that was just read.
    fn compare_clocks(&mut self, at: Option<Timestamp>, end_seen_at: Option<Timestamp>, taken: &[Taken]) {
        let (Some(at), now, ahead) = (at, self.clock.now(), self.notes.clock_ahead) else { return };
        let replied_at = taken.iter().find_map(|taken| self.submitted_ids.noted_at(&taken.queue_id.0));
        let by_own = replied_at.and_then(|replied_at| self.clock_difference.note_own(ahead, at, replied_at));
        let by_reading = || self.clock_difference.note_line(ahead, at, end_seen_at?, now);
        let Some(ahead) = by_own.or_else(by_reading) else { return };
        tracing::warn!(
            seconds = ahead / 1000,
            "the mail log's clock differs from this server's; log times are corrected"
        );
        self.notes.clock_ahead = ahead;
        self.times.set_ahead(ahead);
    }

    fn note_taken(&mut self, taken: &[Taken]) {
        for one in taken {
            if let Some(replied_at) = self.submitted_ids.noted_at(&one.queue_id.0) {
                self.hearing.note_own(replied_at);
            }
            self.index.add(one);
            self.confirmed.push(one.queue_id.clone());
        }
    }

    fn open(&self, place: &Place) -> Result<Box<dyn Source>, FollowerError> {
        Ok(match (&self.settings.source, place) {
            (LogSource::File(_), Place::Beginning) => Box::new(self.file_log()?.beginning()?),
            (LogSource::File(_), Place::File(place)) => Box::new(self.file_log()?.resume(place)?),
            (LogSource::Journal(settings), Place::Beginning) => Box::new(JournalSource::new(settings.clone(), None)),
            (LogSource::Journal(settings), Place::Journal(name)) => {
                Box::new(JournalSource::new(settings.clone(), Some(name.clone())))
            }
            _ => return Err(of_another_source()),
        })
    }

    fn file_log(&self) -> Result<FileLog, FollowerError> {
        let LogSource::File(settings) = &self.settings.source else { return Err(of_another_source()) };
        Ok(FileLog {
            settings: settings.clone(),
            max_line: self.settings.max_line_bytes,
            times: self.times.clone(),
            clock: self.clock.clone(),
        })
    }

    /// Continues at a cursor, with the tracked messages that its lines may refer to.
    fn resume(&mut self, cursor: &FeedCursor) -> Result<Live, FollowerError> {
        let cursor = Cursor::decode(cursor).ok_or_else(of_another_source)?;
        // The lines that the reader could not store are read again.
        self.confirmed.clear();
        self.hearing.count_anew();
        let mut live = match cursor.place {
            Place::Beginning => {
                let source = self.open(&Place::Beginning)?;
                Live::new(source, TrackedMessages::default(), &cursor)
            }
            _ => self.resume_behind(&cursor)?,
        };
        if let Some(until) = cursor.quiet_until {
            live.tracked.end_long_attempts(until, &mut Findings::default());
        }
        // The record after the position was reported in part: skip its first events.
        if cursor.reported > 0
            && let Some(step) = self.step(live.source.as_mut(), &mut live.tracked)?
        {
            live.lines += u64::from(step.is_postfix);
            live.pending.extend(step.findings.events.into_iter().skip(cursor.reported));
        }
        Ok(live)
    }

    fn resume_behind(&mut self, cursor: &Cursor) -> Result<Live, FollowerError> {
        // The saved messages, in case the lines after them are gone: most are probably still queued.
        let mut kept: Option<TrackedMessages> = None;
        if let Some(Saved { place, tracked, .. }) = saved_state::load(&self.settings.state_dir)? {
            let source = self.open(&place)?;
            match self.replay(source, tracked.into_owned(), cursor)? {
                Replayed::Reached { live, .. } => return Ok(*live),
                // `replay` consumed the state, so load it again.
                Replayed::Gap => {
                    kept = saved_state::load(&self.settings.state_dir)?.map(|saved| saved.tracked.into_owned())
                }
                // The reader's database is older than the state.
                Replayed::Missed => {}
            }
        }
        let (earlier, is_oldest) = self.earlier(&cursor.place)?;
        if let Some(source) = earlier {
            let known_at = kept.as_ref().and_then(|tracked| tracked.last_at);
            let tracked = kept.clone().unwrap_or_default();
            if let Replayed::Reached { mut live, begun_at } = self.replay(source, tracked, cursor)? {
                if kept.is_some() || !is_oldest || live.tracked.has_unnamed() {
                    let until = begun_at.or(live.tracked.last_at);
                    self.note_lost_state(&mut live, known_at, until);
                }
                return Ok(*live);
            }
        }
        let known_at = kept.as_ref().and_then(|tracked| tracked.last_at);
        let mut live = Live::new(self.open(&cursor.place)?, kept.unwrap_or_default(), cursor);
        // If the position is gone, the source continues after a gap and reports it. Otherwise only lines before it
        // are missing.
        if !self.note_gaps(&mut live, known_at) {
            self.note_lost_state(&mut live, known_at, cursor.place.newest_line_at());
        }
        Ok(live)
    }

    /// Returns the log before a position, as much as a rebuild reads, and whether that is all of it.
    fn earlier(&self, place: &Place) -> Result<(Option<Box<dyn Source>>, bool), FollowerError> {
        let Place::File(place) = place else { return Ok((Some(self.open(&Place::Beginning)?), true)) };
        let earlier = self.file_log()?.earlier(place, REBUILD_BYTES)?;
        let is_oldest = earlier.as_ref().is_none_or(|(_, is_oldest)| *is_oldest);
        Ok((earlier.map(|(source, _)| Box::new(source) as Box<dyn Source>), is_oldest))
    }

    /// Notes that the tracked messages were rebuilt from lines that do not go back far enough.
    fn note_lost_state(&mut self, live: &mut Live, from: Option<Timestamp>, to: Option<Timestamp>) {
        let now = self.clock.now();
        live.tracked.note_gap();
        let detail = "the log does not go back to the position of the saved state".to_owned();
        let gap = Gap { to: to.unwrap_or(now), ..gap_until(now, from, GapKind::StateLost, detail) };
        note_gap(&mut self.notes.gaps, &self.settings, gap);
    }

    /// Reads up to the cursor without reporting events.
    fn replay(
        &mut self,
        mut source: Box<dyn Source>,
        mut tracked: TrackedMessages,
        cursor: &Cursor,
    ) -> Result<Replayed, FollowerError> {
        let (mut bytes, mut lines, mut begun_at) = (0, 0, None);
        loop {
            if !source.take_gaps().is_empty() {
                return Ok(Replayed::Gap);
            }
            if is_same(&source.place(tracked.last_at), &cursor.place) {
                self.index.write()?;
                self.read_since_save = bytes;
                let live = Box::new(Live { lines, ..Live::new(source, tracked, cursor) });
                return Ok(Replayed::Reached { live, begun_at });
            }
            let Some(step) = self.step(source.as_mut(), &mut tracked)? else { return Ok(Replayed::Missed) };
            let Step { findings, bytes: length, is_postfix } = step;
            if is_postfix {
                lines += 1;
                begun_at = begun_at.or(tracked.last_at);
            }
            self.note_taken(&findings.taken);
            self.note_crash(&mut tracked, findings.crash);
            self.notes.note_unnamed(findings.unnamed_at);
            bytes += length;
        }
    }
}

/// Ends attempts by this server's clock at the end of the log. The batch may exceed its limit: a cursor cannot point
/// between these events.
fn end_attempts_in_silence(live: &mut Live, now: Timestamp, batch: &mut LogBatch) {
    let mut findings = Findings::default();
    let ended = live.tracked.end_long_attempts(now, &mut findings);
    report_silently(live, ended, findings, batch);
}

/// Reports attempts that ended without a line. Replaying ends them at this cursor too.
fn report_silently(live: &mut Live, ended: Option<Timestamp>, findings: Findings, batch: &mut LogBatch) {
    if let Some(until) = ended {
        live.cursor.quiet_until = Some(until);
        batch.events.extend(findings.events);
        batch.discarded.extend(findings.discarded);
    }
}

/// Whether two positions are the same. A renamed or copied file keeps its first bytes.
fn is_same(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::File(one), Place::File(other)) => (one.offset, one.head) == (other.offset, other.head),
        _ => one == other,
    }
}

/// Whether the follower has left a file since the state was saved. The state must then be saved soon: the next
/// rotation but one may remove lines that it needs.
fn has_left(saved: Option<&Place>, place: &Place) -> bool {
    match (saved, place) {
        (Some(Place::File(saved)), Place::File(place)) => saved.id != place.id || place.offset < saved.offset,
        (Some(Place::Journal(_)), Place::Journal(_)) => false,
        _ => true,
    }
}

fn of_another_source() -> FollowerError {
    FollowerError("the stored position belongs to another log".to_owned())
}

/// Returns a gap from the line written at `before` until `now`.
fn gap_until(now: Timestamp, before: Option<Timestamp>, kind: GapKind, detail: String) -> Gap {
    Gap { at: now, from: before.unwrap_or(Timestamp::from_millis(0)), to: now, kind, detail }
}

fn note_dropped(gaps: &mut Vec<Gap>, settings: &LogSettings, now: Timestamp, before: Option<Timestamp>) {
    let detail = "the logging daemon dropped lines because there were too many".to_owned();
    note_gap(gaps, settings, gap_until(now, before, GapKind::RateLimited, detail));
}

/// Notes a gap. Lines that are read again report the same gap, which then is only extended.
fn note_gap(gaps: &mut Vec<Gap>, settings: &LogSettings, gap: Gap) {
    let is_same = |known: &&mut Gap| known.kind == gap.kind && known.detail == gap.detail && known.from == gap.from;
    if let Some(known) = gaps.iter_mut().rfind(is_same) {
        known.to = known.to.max(gap.to);
        return;
    }
    if gap.kind.is_loss() {
        tracing::warn!(kind = gap.kind.as_str(), detail = gap.detail, "part of the mail log is missing");
    }
    let horizon = gap.at.minus(settings.index_lifetime);
    gaps.push(gap);
    if gaps.len() > settings.max_gaps {
        gaps.retain(|gap| gap.at >= horizon);
        merge_oldest(gaps, settings.max_gaps.max(1));
    }
}

/// Merges the oldest gaps if there are more than `most`. Forgetting them would make the absence of a line in their
/// time count as proof.
fn merge_oldest(gaps: &mut Vec<Gap>, most: usize) {
    let excess = gaps.len().saturating_sub(most);
    if excess > 0
        && let Some(merged) = gaps.drain(..=excess).reduce(Gap::merged)
    {
        gaps.insert(0, merged);
    }
}
