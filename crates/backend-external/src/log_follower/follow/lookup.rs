//! Looks up one message in the log after a crash or a lost connection.
//!
//! Postfix writes a message to a file under `incoming` while receiving it, makes it durable, and only then marks the
//! file as complete (mode 0700). From then on the message is in the queue, even if a process is killed; before that,
//! it never will be. After a start the queue manager processes complete files and ignores the rest.
//!
//! The log has a line when the header was received (`cleanup`, `message-id=`). It has another line when the queue
//! manager activates the message (`qmgr`, `queue active`), repeated at each attempt. Hence:
//!
//! * With the second line, the mail server has the message.
//! * With neither, the message never arrived. This requires a log that is complete for as long as a line could have
//!   been written. It also requires a mail server that has since proved to be alive.
//! * With only the first, the message is still being received, or the receiving process is gone. Then only the queue
//!   shows whether the file became complete ([`LogOutcome::Interrupted`]).
//!
//! A crash of Postfix may lose lines: its own logger dies with it, and so do the lines sent to that logger. A message
//! submitted at that moment may be in the queue without a line in the log. A queue listing shows it. Time shows it
//! too, since Postfix logs everything in its queue at least once per `maximal_backoff_time`.
//!
//! One case remains invisible. While lines are lost, a message becomes complete, is delivered to each recipient and
//! is removed, and its reply is lost too. With a separate logger (syslog, the journal) there is no such moment. If
//! the machine went down, that moment is long, and the result remains undecided.

use mailapi_backend::{Accepted, Attempt, Refusal};
use mailapi_model::{QueueId, Timestamp};

use super::super::message::{Message, RefusedRecipient};
use super::super::place::Place;
use super::super::report::{Gap, GapKind, Taken};
use super::super::saved_state;
use super::super::settings::LogSource;
use super::super::tracked_messages::TrackedMessages;
use super::super::{FollowerError, LookupResult};
use super::{Follow, HEARING_TIME, NOTHING_UNDERSTOOD, gap_until};

/// The reason if a missing line proves nothing.
const LOG_IS_INCOMPLETE: &str = "part of the log is missing";

/// The result from the log alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum LogOutcome {
    /// Decided by the log, or undecidable.
    Decided(LookupResult),
    /// The receiving process is gone: the message is in the queue, or nowhere. Lists the queue ids under which the
    /// log shows its reception.
    Interrupted(Vec<Accepted>),
}

/// Hints about a message from outside the log.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Hints {
    /// When the submitting connection ended, if it belonged to this process.
    pub(in super::super) ended: Option<Timestamp>,
    /// When the mail server last responded to a check for this message.
    pub(in super::super) alive: Option<Timestamp>,
}

/// What the unread end of the log adds.
#[derive(Default)]
struct Unread {
    gaps: Vec<Gap>,
    unnamed_at: Option<Timestamp>,
}

impl Follow {
    /// Looks up a submitted message in the log, including its unread end.
    pub(in super::super) fn find(&mut self, attempt: &Attempt, hints: Hints) -> Result<LogOutcome, FollowerError> {
        let message_id = attempt.message_id;
        if let Some(taken) = self.index.find(message_id)? {
            return Ok(LogOutcome::Decided(LookupResult::Taken(taken.into())));
        }
        let begun = self.clock.now();
        let (place, mut tracked, mut lines) = match &self.live {
            Some(live) => (live.cursor.place.clone(), live.tracked.only(message_id), live.lines_before_cursor()),
            None => match saved_state::load(&self.settings.state_dir)? {
                Some(saved) => (saved.place, saved.tracked.only(message_id), 0),
                None => (Place::Beginning, TrackedMessages::default(), 0),
            },
        };
        if place == Place::Beginning && self.has_older_files()? {
            return Ok(LogOutcome::Decided(LookupResult::Undecided("the log has not been read yet")));
        }
        let mut source = self.open(&place)?;
        if source.unread() > self.settings.find_bytes {
            return Ok(LogOutcome::Decided(LookupResult::Undecided("the log has not been read to its end yet")));
        }
        // The copies of the state leave the reader's position unchanged.
        let mut unread = Unread::default();
        while let Some(step) = self.step(source.as_mut(), &mut tracked)? {
            if step.is_postfix {
                lines += 1;
                self.hearing.note_line(lines, self.clock.now());
            }
            let findings = step.findings;
            if let Some(taken) = findings.taken.into_iter().find(|taken| taken.message_id == message_id) {
                return Ok(LogOutcome::Decided(LookupResult::Taken(taken.into())));
            }
            unread.gaps.extend(findings.crash.map(|crash| self.gap_of(crash)));
            unread.unnamed_at = unread.unnamed_at.max(findings.unnamed_at);
        }
        // The index may have been lost while the message was in the queue.
        if let Some((id, message)) = tracked.of_message(message_id).find(|(_, message)| message.queued) {
            return Ok(LogOutcome::Decided(LookupResult::Taken(accepted(id, message))));
        }
        let (now, before) = (self.clock.now(), tracked.last_at);
        let missing: Vec<Gap> =
            source.take_gaps().into_iter().map(|(kind, detail)| gap_until(now, before, kind, detail)).collect();
        if missing.is_empty() {
            self.hearing.note_end(lines, begun);
        }
        unread.gaps.extend(missing);
        Ok(self.judge(&tracked, attempt, hints, &unread))
    }

    /// Whether the log identifies every message of these queue ids.
    pub(in super::super) fn are_named(&self, queue_ids: &[String]) -> bool {
        let Some(live) = &self.live else { return queue_ids.is_empty() };
        queue_ids.iter().all(|id| live.tracked.is_named(id))
    }

    fn has_older_files(&self) -> Result<bool, FollowerError> {
        match &self.settings.source {
            LogSource::File(_) => self.file_log()?.has_older_files(),
            LogSource::Journal(_) => Ok(false),
        }
    }

    /// Decides about a message that the log does not show in the queue.
    fn judge(&self, tracked: &TrackedMessages, attempt: &Attempt, hints: Hints, unread: &Unread) -> LogOutcome {
        let now = self.clock.now();
        let undecided = |why| LogOutcome::Decided(LookupResult::Undecided(why));
        let entered: Vec<(&str, &Message)> = tracked.of_message(attempt.message_id).collect();
        if entered.iter().any(|(_, message)| message.held) {
            return undecided("the message is on hold");
        }
        let is_coming =
            |message: &Message| !message.cut_off && now.since(message.last_seen) < self.settings.reception_time;
        if entered.iter().any(|(_, message)| is_coming(message)) {
            return undecided("the message is being received");
        }
        let ended = hints.ended.unwrap_or_else(|| self.latest_end(attempt));
        if now < ended.plus(self.settings.settle_time) {
            return undecided("the mail server may not have logged the message yet");
        }
        // A message that was being received may lose lines until now; otherwise only until its connection ended.
        let until = if entered.is_empty() { ended } else { now };
        let gaps: Vec<&Gap> =
            self.notes.gaps.iter().chain(&unread.gaps).filter(|gap| self.matters(gap, attempt, until)).collect();
        let is_end_of_mail_server =
            |gap: &&Gap| matches!(gap.kind, GapKind::MailServerCrashed | GapKind::MailServerStopped);
        if !gaps.iter().all(is_end_of_mail_server) {
            return undecided(LOG_IS_INCOMPLETE);
        }
        if !gaps.is_empty() && self.is_perhaps_unnamed(attempt, unread) {
            return undecided("a message in the queue whose first lines are missing may be this one");
        }
        let is_cut_off = entered.iter().any(|(_, message)| message.cut_off);
        if gaps.is_empty() && entered.is_empty() {
            return self.unless_dead(tracked, hints, ended);
        }
        let Some(running_since) = tracked.runs_since(attempt.message_id) else {
            return undecided("the mail server is not running");
        };
        // The reception timed out: nothing cut it off, and the message never entered the queue.
        if gaps.is_empty() && !is_cut_off {
            return self.unless_dead(tracked, hints, ended);
        }
        // By then the queue manager would have logged a message that is in the queue.
        let patience = if gaps.is_empty() { self.settings.reception_time } else { self.settings.retry_time };
        if now.since(running_since) >= patience {
            return self.unless_dead(tracked, hints, running_since.plus(patience));
        }
        LogOutcome::Interrupted(entered.into_iter().map(|(id, message)| accepted(id, message)).collect())
    }

    /// Returns that the message never arrived, if the mail server was alive after `moment`. A killed server logs
    /// nothing about it until it is restarted, and may have the message in its queue. `moment` is by this server's
    /// clock, so the arrival of lines counts, not the times in them.
    fn unless_dead(&self, tracked: &TrackedMessages, hints: Hints, moment: Timestamp) -> LogOutcome {
        let (now, settle_time) = (self.clock.now(), self.settings.settle_time);
        let undecided = |why| LogOutcome::Decided(LookupResult::Undecided(why));
        if self.hearing.spoke_since(moment.plus(settle_time)) {
            return LogOutcome::Decided(LookupResult::NotTaken);
        }
        let Some(at) = hints.alive.filter(|at| *at >= moment) else { return LogOutcome::Decided(LookupResult::Silent) };
        // After a restart before its response, it would have logged that by then.
        if now < at.plus(settle_time) {
            return undecided("the mail server may not have logged the message yet");
        }
        if tracked.last_at.is_none() {
            return undecided(NOTHING_UNDERSTOOD);
        }
        // Postfix logs each connection. If that line is missing, the log is another server's or has an unknown
        // format.
        let is_unheard =
            now >= at.plus(settle_time).plus(HEARING_TIME) && !self.hearing.heard_since(at.minus(settle_time));
        LogOutcome::Decided(if is_unheard { LookupResult::Silent } else { LookupResult::NotTaken })
    }

    /// Returns the latest end of a connection that this process did not observe. The submitting process was a
    /// predecessor of this one, which is gone, or another node's, which may still be working.
    fn latest_end(&self, attempt: &Attempt) -> Timestamp {
        if attempt.by_this_node && self.settings.hands_over_here && attempt.since < self.started_at {
            return self.started_at;
        }
        attempt.since.plus(self.settings.reception_time)
    }

    /// Whether a gap may hide lines about a message that was submitted until `until`.
    fn matters(&self, gap: &Gap, attempt: &Attempt, until: Timestamp) -> bool {
        let margin = self.settings.settle_time;
        let is_remembered = self.clock.now().since(gap.at) < self.settings.index_lifetime;
        is_remembered && gap.from <= until.plus(margin) && attempt.since.minus(margin) <= gap.to
    }

    /// Whether an unidentified message in the queue may be this one. The sender is irrelevant: the log has the
    /// address after canonical maps, milters and SRS. The margin allows for different clocks.
    fn is_perhaps_unnamed(&self, attempt: &Attempt, unread: &Unread) -> bool {
        let begun = attempt.since.minus(self.settings.reception_time);
        self.notes.unnamed_at.max(unread.unnamed_at) >= Some(begun)
    }
}

fn accepted(id: &str, message: &Message) -> Accepted {
    let refused = message.refused.iter().cloned();
    let refused = refused.map(|RefusedRecipient { recipient, reply, .. }| Refusal { recipient, reply });
    Accepted { queue_id: QueueId(id.to_owned()), refused: refused.collect() }
}

impl From<Taken> for Accepted {
    fn from(taken: Taken) -> Self {
        let refused = taken.refused.into_iter();
        let refused = refused.map(|(recipient, reply)| Refusal { recipient, reply });
        Self { queue_id: taken.queue_id, refused: refused.collect() }
    }
}
