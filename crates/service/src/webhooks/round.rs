//! One round of a webhook: reads events, sends them, and stores the results.
//!
//! A webhook has one position in the log. Events that the receiver did not get have rows, so the position moves on, and
//! a failing event delays only its own message. Memory and rows are bounded: a round has a window of events, and with
//! too many rows the position stays where it is.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use mailapi_events::{EventCursor, EventId, webhook_disabled};
use mailapi_metrics::Webhook as AttemptResult;
use mailapi_model::{MessageId, ReadEvents, Timestamp, WebhookAuthor, WebhookDisabled, WebhookId};
use mailapi_store::{
    DisabledWebhook, EventFilter, EventPage, FailedAttempt, Webhook, WebhookClaim, WebhookFailure, WebhookProgress,
};
use mailapi_webhooks::{Answer, Connection, ExchangeError, KeyError, Receiver, SigningKey, Verdict, wait_after};

use super::connections::{Pool, Share};
use super::plan::{MOST_OPEN, Plan, WINDOW, Work, earlier, is_over};
use super::receiver;
use super::rights::WebhookRights;
use crate::{Service, Unavailable};

/// Maximum number of connections to a receiver, if there is room; a failing one gets one.
const LANES: usize = 8;
/// The time after which a round begins no further attempt. A slow receiver's other events wait for the next round.
const ROUND: Duration = Duration::from_secs(30);
/// The time for which a node reserves a webhook: three quarters of it are longer than a round with its last attempt.
const CLAIM: Duration = Duration::from_secs(90);
/// The shortest rest of a node while another one has reserved the webhook: the times of both are rounded.
const SHORTEST_REST: Duration = Duration::from_millis(100);
/// A webhook is disabled after this time of failures without a success.
const GIVE_UP: Duration = Duration::from_secs(5 * 24 * 60 * 60);
/// The shortest pause that a receiver can ask for.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause of a receiver that asked for none. The next attempt of an old event may be a day away, which is no
/// reason to hold back all others.
const LONGEST_USUAL_PAUSE: Duration = Duration::from_secs(5 * 60);
/// Number of events that the filter excludes before the position is stored.
const UNSTORED: u64 = 1000;
/// The time between two looks whether a disabled account is enabled.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Maximum length of an error in characters.
const ERROR_CHARACTERS: usize = 500;

/// A position in the log. `read` is ahead of `stored` by events that the filter excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) stored: EventCursor,
    pub(super) read: EventCursor,
}

impl Position {
    /// A position that is stored.
    pub(super) const fn at(stored: EventCursor) -> Self {
        Self { stored, read: stored }
    }

    /// Passes events that the filter excludes.
    pub(super) fn ahead(self, read: EventCursor) -> Self {
        Self { read: self.read.max(read), ..self }
    }
}

/// The result of a round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundResult {
    /// Whether there is more to do at once.
    pub(super) more: bool,
    /// When the next event is tried again.
    pub(super) next_try: Option<Timestamp>,
    /// The next round begins at this time at the earliest.
    pub(super) not_before: Option<Timestamp>,
    /// Whether the webhook has read all events up to its position, and only new ones need another round.
    pub(super) is_caught_up: bool,
    /// Whether the latest attempt failed.
    pub(super) is_failing: bool,
    /// Where the next round resumes.
    pub(super) position: Option<Position>,
}

impl Service {
    /// Runs one round of a webhook, after a wait for its first connection.
    pub(super) async fn webhook_round(
        &self,
        share: &Share,
        is_failing: bool,
        at: Option<Position>,
    ) -> Result<RoundResult, Unavailable> {
        let pool = self.0.webhooks.connections.pool(is_failing);
        let _first = pool.first(share).await;
        let now = self.0.clock.now();
        let rest = |until| RoundResult {
            not_before: Some(until),
            next_try: Some(until),
            position: at,
            is_failing,
            ..RoundResult::default()
        };
        let webhook = match self.0.store.webhooks().claim(share.webhook, self.node(), CLAIM).await? {
            WebhookClaim::Held(webhook) => webhook,
            WebhookClaim::Reserved(left) => return Ok(rest(self.0.clock.now().plus(left.max(SHORTEST_REST)))),
            WebhookClaim::Gone => return Ok(rest(now.plus(LOOK_AGAIN))),
        };
        let rights = match self.webhook_rights(&webhook.author).await? {
            WebhookRights::Held { rights, .. } => rights,
            WebhookRights::Suspended => return Ok(rest(now.plus(LOOK_AGAIN))),
            WebhookRights::Lost => {
                self.disable_without_rights(&webhook, now).await?;
                return Ok(rest(now.plus(LOOK_AGAIN)));
            }
        };
        if let Some(until) = webhook.paused_until.filter(|until| !is_over(*until, webhook.last_attempt_at, now)) {
            return Ok(rest(until));
        }
        let from = Reading { webhook: &webhook, rights: &rights, at };
        self.send_events(from, pool, share, now).await
    }

    /// Reads events, sends them, and stores the results.
    async fn send_events(
        &self,
        reading: Reading<'_>,
        pool: &Pool,
        share: &Share,
        now: Timestamp,
    ) -> Result<RoundResult, Unavailable> {
        let webhook = reading.webhook;
        let id = webhook.id;
        let open = self.0.store.webhooks().open_failures(id, most_open()).await?;
        let is_full = open.len() >= MOST_OPEN;
        let page = if is_full { nothing_new(webhook.cursor) } else { self.new_events(reading).await? };
        let EventPage { events, cursor, has_more, truncated } = page;
        if truncated {
            tracing::warn!(webhook = %id, "webhook missed events that are no longer kept");
        }
        let mut plan = Plan::new(open, events, now);
        let attempts = Attempts::new(self, webhook, pool, share)?;
        let results = attempts.send(std::mem::take(&mut plan.groups)).await?;
        let next_try = results.next_try.map_or(plan.next_try, |next| earlier(plan.next_try, next));
        let (is_cut_off, hung) = (results.is_cut_off, results.hung);
        let progress = self.progress(webhook, cursor, plan.waiting, results, now);
        let stored = self.store_progress(id, webhook, &progress).await?;
        Ok(RoundResult {
            more: has_more || is_cut_off || !progress.settled.is_empty() || stored.is_none(),
            next_try,
            not_before: progress.paused_until.or(next_try.filter(|_| is_full)),
            is_caught_up: !has_more && !is_full && stored.is_some(),
            // A receiver that hangs for some events must not hold connections that others wait for either.
            is_failing: hung || progress.failing_since.is_some(),
            position: stored.map(|stored| Position { stored, read: cursor.max(stored) }),
        })
    }

    /// Disables a webhook whose author may no longer read the events.
    async fn disable_without_rights(&self, webhook: &Webhook, now: Timestamp) -> Result<(), Unavailable> {
        let nothing = self.progress(webhook, webhook.cursor, Vec::new(), Results::default(), now);
        let disabled = Some(self.disabled(webhook, WebhookDisabled::Permission, now));
        self.store_progress(webhook.id, webhook, &WebhookProgress { disabled, ..nothing }).await?;
        Ok(())
    }

    async fn new_events(&self, reading: Reading<'_>) -> Result<EventPage, Unavailable> {
        let Reading { webhook, rights, at } = reading;
        // If the stored position has changed, a replay moved it back.
        let from = at.filter(|at| at.stored == webhook.cursor).map_or(webhook.cursor, |at| at.read);
        let scope = self.event_scope(rights).await?;
        let (domain, mailbox) = (webhook.domain.clone(), webhook.mailbox.clone());
        let filter = EventFilter { types: webhook.types.clone(), domain, mailbox, ..EventFilter::of(scope) };
        self.events_after(from, &filter, WINDOW).await
    }

    /// Returns the keys that sign the messages of a webhook now, the current one first.
    pub(super) fn keys_of(&self, webhook: &Webhook) -> Result<Vec<SigningKey>, KeyError> {
        let now = self.0.clock.now();
        let former = webhook.former_key.iter().filter(|(_, until)| *until > now).map(|(key, _)| key);
        let keys = [&webhook.key].into_iter().chain(former);
        keys.map(|key| SigningKey::from_bytes(webhook.signing, key.clone())).collect()
    }

    fn progress(
        &self,
        webhook: &Webhook,
        to: EventCursor,
        waiting: Vec<WebhookFailure>,
        results: Results,
        now: Timestamp,
    ) -> WebhookProgress {
        let Results { settled, mut failures, attempted, succeeded, last_error, gone, pause, .. } = results;
        failures.extend(waiting);
        let failing_since = match (attempted, succeeded) {
            (_, true) => None,
            (true, false) => webhook.failing_since.or(Some(now)),
            (false, false) => webhook.failing_since,
        };
        let is_hopeless = attempted && failing_since.is_some_and(|since| now.since(since) >= GIVE_UP);
        let because = gone.then_some(WebhookDisabled::Gone).or(is_hopeless.then_some(WebhookDisabled::Failures));
        let disabled = because.map(|because| self.disabled(webhook, because, now));
        WebhookProgress {
            node: self.node().to_owned(),
            from: webhook.cursor,
            revision: webhook.revision,
            to,
            settled,
            failures,
            failing_since,
            paused_until: pause,
            has_attempted: attempted,
            has_succeeded: succeeded,
            last_error: if attempted { last_error } else { webhook.last_error.clone() },
            disabled,
        }
    }

    fn disabled(&self, webhook: &Webhook, because: WebhookDisabled, now: Timestamp) -> DisabledWebhook {
        let id = EventId::random(now, self.0.entropy.as_ref());
        let event = webhook_disabled(webhook.id, &webhook.url, webhook.domain.as_ref(), because, id);
        DisabledWebhook { because, event, notice: MessageId::random(now, self.0.entropy.as_ref()) }
    }

    /// Stores the results if there are any. Returns the stored position; `None` if the webhook has changed.
    async fn store_progress(
        &self,
        id: WebhookId,
        webhook: &Webhook,
        progress: &WebhookProgress,
    ) -> Result<Option<EventCursor>, Unavailable> {
        let has_results = !progress.failures.is_empty() || !progress.settled.is_empty();
        let is_empty = !progress.has_attempted && !has_results && progress.disabled.is_none();
        if is_empty && progress.to.number().saturating_sub(webhook.cursor.number()) < UNSTORED {
            return Ok(Some(webhook.cursor));
        }
        let is_stored = self.0.store.webhooks().advance(id, progress, self.0.clock.now()).await?;
        if let Some(disabled) = progress.disabled.as_ref().filter(|_| is_stored) {
            tracing::warn!(webhook = %id, because = disabled.because.as_str(), "webhook disabled");
            self.0.events.wake();
            self.0.webhooks.changed.notify_one();
        }
        Ok(is_stored.then_some(progress.to))
    }
}

/// What a webhook may read, and from where.
#[derive(Clone, Copy)]
struct Reading<'a> {
    webhook: &'a Webhook,
    rights: &'a ReadEvents,
    at: Option<Position>,
}

/// The limit and one window, because the last read below the limit may add a window.
fn most_open() -> u32 {
    u32::try_from(MOST_OPEN + WINDOW).unwrap_or(u32::MAX)
}

const fn nothing_new(cursor: EventCursor) -> EventPage {
    EventPage { events: Vec::new(), cursor, has_more: false, truncated: false }
}

/// The results of the attempts of one round.
#[derive(Debug, Default)]
struct Results {
    settled: Vec<u64>,
    failures: Vec<WebhookFailure>,
    attempted: bool,
    succeeded: bool,
    last_error: Option<String>,
    gone: bool,
    pause: Option<Timestamp>,
    /// Whether an attempt had no answer in time. Further ones would hold connections that other receivers wait for.
    hung: bool,
    /// Whether events were left for the next round.
    is_cut_off: bool,
    next_try: Option<Timestamp>,
}

/// The attempts of one round.
struct Attempts<'a> {
    service: &'a Service,
    author: &'a WebhookAuthor,
    receiver: Receiver,
    keys: Vec<SigningKey>,
    lanes: usize,
    pool: &'a Pool,
    share: &'a Share,
    /// The steady time at which the round ends.
    end: Duration,
    results: Mutex<Results>,
}

impl<'a> Attempts<'a> {
    fn new(service: &'a Service, webhook: &'a Webhook, pool: &'a Pool, share: &'a Share) -> Result<Self, Unavailable> {
        let broken = |error: String| Unavailable::Unforeseen(format!("webhook {}: {error}", webhook.id));
        let receiver =
            receiver(&webhook.url, webhook.author.user().is_none()).map_err(|error| broken(error.to_string()))?;
        let keys = service.keys_of(webhook).map_err(|error| broken(error.to_string()))?;
        let lanes = if webhook.failing_since.is_some() { 1 } else { LANES };
        let end = service.0.clock.steady() + ROUND;
        Ok(Self {
            service,
            author: &webhook.author,
            receiver,
            keys,
            lanes,
            pool,
            share,
            end,
            results: Mutex::default(),
        })
    }

    async fn send(self, groups: Vec<Vec<Work>>) -> Result<Results, Unavailable> {
        let lanes = self.lanes.min(groups.len());
        let groups = Mutex::new(VecDeque::from(groups));
        // The round has its first connection.
        let further: Vec<_> = std::iter::from_fn(|| self.pool.further(self.share)).take(lanes.max(1) - 1).collect();
        try_join_all((0..=further.len()).map(|_| self.lane(&groups))).await?;
        Ok(self.results.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, change: impl FnOnce(&mut Results)) {
        change(&mut self.results.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends groups, one after the other, over one connection.
    async fn lane(&self, groups: &Mutex<VecDeque<Vec<Work>>>) -> Result<(), Unavailable> {
        let mut connection = None;
        let next = || groups.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(group) = next() {
            self.group(group, &mut connection).await?;
        }
        Ok(())
    }

    /// Sends the events of one message, in their order, up to the first failure.
    async fn group(&self, group: Vec<Work>, connection: &mut Option<Connection>) -> Result<(), Unavailable> {
        let mut rest = group.into_iter();
        while let Some(work) = rest.next() {
            if self.is_over() || !self.has_rights().await? {
                self.note(|results| results.is_cut_off = true);
                self.leave(std::iter::once(work).chain(rest));
                return Ok(());
            }
            let (number, is_stored) = (work.event.number, work.is_stored);
            let Some(failure) = self.attempt(work, connection).await? else {
                self.note(|results| results.settled.extend(is_stored.then_some(number)));
                continue;
            };
            self.note(|results| {
                if let Some(next) = failure.next_try_at {
                    results.next_try = earlier(results.next_try, next);
                } else {
                    // Given up, so the next event of the message can be sent.
                    results.is_cut_off = true;
                }
                results.failures.push(failure);
            });
            self.leave(rest);
            return Ok(());
        }
        Ok(())
    }

    /// Leaves events for a later round.
    fn leave(&self, events: impl Iterator<Item = Work>) {
        let new = events.filter(|work| !work.is_stored).map(|work| work.event);
        self.note(|results| results.failures.extend(new));
    }

    /// Returns whether no further attempt may begin.
    fn is_over(&self) -> bool {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.gone || results.hung || results.pause.is_some() || self.service.0.clock.steady() >= self.end
    }

    /// Returns whether the author still has rights. They may end during a round.
    async fn has_rights(&self) -> Result<bool, Unavailable> {
        Ok(matches!(self.service.webhook_rights(self.author).await?, WebhookRights::Held { .. }))
    }

    /// Sends one event; returns its new state if the receiver did not accept it.
    async fn attempt(
        &self,
        work: Work,
        connection: &mut Option<Connection>,
    ) -> Result<Option<WebhookFailure>, Unavailable> {
        let inner = &self.service.0;
        let body = match work.body {
            Some(body) => body,
            None => match inner.store.events().find(work.event.event_id).await? {
                Some(event) => event.body,
                // No longer kept.
                None => return Ok(None),
            },
        };
        let body = Bytes::copy_from_slice(body.as_bytes());
        let message = self.service.message(work.event.event_id, body, &self.keys);
        let answer = inner.webhooks.exchange.send(&self.receiver, &message, connection).await;
        inner.metrics.count_webhook_attempt(counted(&answer));
        if matches!(&answer, Ok(answer) if answer.verdict() == Verdict::Delivered) {
            self.note(|results| (results.attempted, results.succeeded) = (true, true));
            return Ok(None);
        }
        Ok(Some(self.failed(work.event, message.at, answer)))
    }

    /// Returns the state of an event after a failed attempt.
    fn failed(&self, event: WebhookFailure, at: Timestamp, answer: Result<Answer, ExchangeError>) -> WebhookFailure {
        let now = self.service.0.clock.now();
        let verdict = answer.as_ref().map_or(Verdict::Failed, Answer::verdict);
        let usual = wait_after(event.attempts + 1, self.service.0.entropy.as_ref());
        let (attempts, wait) = match verdict {
            // Not counted as attempts: the receiver may ask for many short pauses.
            Verdict::Slow(Some(pause)) => (event.attempts, Some(pause.max(SHORTEST_PAUSE))),
            Verdict::Gone => (event.attempts, Some(Duration::ZERO)),
            Verdict::Slow(None) | Verdict::Failed | Verdict::Delivered => (event.attempts + 1, usual),
        };
        let next_try_at = wait.map(|wait| now.plus(wait));
        let pause = match verdict {
            Verdict::Slow(Some(_)) => next_try_at,
            Verdict::Slow(None) => Some(now.plus(wait.unwrap_or(LONGEST_USUAL_PAUSE).min(LONGEST_USUAL_PAUSE))),
            Verdict::Delivered | Verdict::Gone | Verdict::Failed => None,
        };
        let hung = matches!(answer, Err(ExchangeError::TimedOut));
        let (status, error, answer) = match answer {
            Ok(answer) => (Some(answer.status), None, Some(answer.excerpt)),
            Err(error) => (None, Some(error.to_string().chars().take(ERROR_CHARACTERS).collect::<String>()), None),
        };
        self.note(|results| {
            results.attempted = true;
            results.gone |= verdict == Verdict::Gone;
            results.hung |= hung;
            results.pause = results.pause.max(pause);
            let with_status = status.map(|status| format!("HTTP status {status}"));
            results.last_error = error.clone().or(with_status);
        });
        let last = Some(FailedAttempt { at, status, error, answer });
        WebhookFailure { attempts, next_try_at, last, ..event }
    }
}

fn counted(answer: &Result<Answer, ExchangeError>) -> AttemptResult {
    match answer.as_ref().map(Answer::verdict) {
        Ok(Verdict::Delivered) => AttemptResult::Delivered,
        Ok(Verdict::Failed) => AttemptResult::Refused,
        Ok(Verdict::Slow(_)) => AttemptResult::Slow,
        Ok(Verdict::Gone) => AttemptResult::Gone,
        Err(_) => AttemptResult::Failed,
    }
}
