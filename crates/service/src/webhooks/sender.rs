//! Sends events to all webhooks. Each webhook has its own task, so a slow receiver delays no other.
//!
//! New events are looked up once, in an index of what webhooks want. A webhook has a round when there is an event for
//! it or a failed event is due, so the others cost nothing.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::try_join_all;
use mailapi_backend::Validator;
use mailapi_events::EventCursor;
use mailapi_model::{Timestamp, WebhookId};
use mailapi_store::{PassedWebhook, SendingWebhook};
use tokio::sync::watch;

use super::connections::Share;
use super::interests::Interests;
use super::round::{Position, RoundResult};
use super::running::Running;
use super::schedule::Schedule;
use crate::{Service, Unavailable};

/// The time between two looks for webhooks that other processes and nodes changed.
const LIST_INTERVAL: Duration = Duration::from_secs(5);
/// The time between two looks for failed events of other nodes, which may have stopped, and between two moves of the
/// positions of webhooks without events.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(60);
/// The smallest change of the clock that counts as set back. A clock that is adjusted slowly changes less between two
/// looks.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);
/// The pause of a webhook after an error of the database.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// The time that attempts in progress get to finish at shutdown. Interrupted ones are repeated after the next start.
const FINISH: Duration = Duration::from_secs(2);
/// At the start, webhooks that are at most this number of events behind read the log together.
const TOGETHER: u64 = 1_000_000;
/// Number of events without interest before the position of a webhook is moved past them.
const PASSED: u64 = 1000;

/// Sends events to all webhooks.
pub struct WebhookSender {
    service: Service,
    webhooks: HashMap<WebhookId, State>,
    interests: Interests,
    schedule: Schedule,
    /// The position after the last event that was looked up in `interests`.
    noted: EventCursor,
    /// Accounts and webhooks as of the last list.
    listed: Option<Validator>,
    /// The steady time of the last maintenance.
    maintained_at: Duration,
    /// The shown and the steady time of the last look at the schedule.
    looked_at: (Timestamp, Duration),
    /// The signal for new events. Without webhooks there is none, so that the log is not read.
    newest: Option<watch::Receiver<EventCursor>>,
}

/// What a step of the sender did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookStep {
    /// The number of webhooks that had a round.
    pub rounds: usize,
    /// Whether there is more to do at once.
    pub more: bool,
}

/// The state of one webhook between its rounds.
#[derive(Debug)]
struct State {
    webhook: SendingWebhook,
    round: RoundResult,
    /// Events that the webhook wants, and that its last round did not read.
    wanted: Option<Wanted>,
    is_running: bool,
    /// Whether a request has changed the webhook during the round in progress, whose result then means nothing.
    is_outdated: bool,
    /// Whether the webhook no longer sends; it is removed after the round in progress.
    is_gone: bool,
}

/// A part of the log: from the position before its first event to that after its last one.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    before: EventCursor,
    last: EventCursor,
}

impl Service {
    /// Returns the sender of this process; nothing runs yet.
    #[must_use]
    pub fn webhook_sender(&self) -> WebhookSender {
        WebhookSender {
            service: self.clone(),
            webhooks: HashMap::new(),
            interests: Interests::default(),
            schedule: Schedule::default(),
            noted: EventCursor::default(),
            listed: None,
            maintained_at: self.0.clock.steady(),
            looked_at: (self.0.clock.now(), self.0.clock.steady()),
            newest: None,
        }
    }
}

impl WebhookSender {
    /// Reads new events, and sends what is due now.
    ///
    /// # Errors
    /// [`Unavailable`] if the database is.
    pub async fn send_once(&mut self) -> Result<WebhookStep, Unavailable> {
        self.list().await?;
        while self.service.read_events_once().await? {}
        self.note_events().await?;
        self.maintain().await?;
        let now = self.service.0.clock.now();
        let due = self.begin(now);
        let rounds = due.len();
        let service = self.service.clone();
        let run = |due: Due| {
            let service = service.clone();
            async move { Ok::<_, Unavailable>((due.share.webhook, due.round(&service).await?)) }
        };
        for (id, round) in try_join_all(due.into_iter().map(run)).await? {
            self.end(id, Ok(round));
        }
        self.service.send_webhook_notices().await?;
        let more = self.schedule.rest(self.service.0.clock.now()).is_some_and(|rest| rest.is_zero());
        Ok(WebhookStep { rounds, more })
    }

    /// Sends until `stop` is ready. `begin_round` is called for each wake-up.
    pub async fn run(mut self, stop: impl Future<Output = ()>, mut begin_round: impl FnMut()) {
        let mut running = Running::new();
        let mut list_again = tokio::time::interval(LIST_INTERVAL);
        let service = self.service.clone();
        let changed = &service.0.webhooks.changed;
        tokio::pin!(stop);
        loop {
            begin_round();
            self.start(&mut running).await;
            let rest = tokio::time::sleep(self.rest());
            tokio::select! {
                () = &mut stop => break,
                Some((id, round)) = running.next() => self.end(id, round),
                () = grown(self.newest.as_mut()) => {}
                () = changed.notified() => self.relist(true).await,
                _ = list_again.tick() => self.relist(false).await,
                () = rest => {}
            }
        }
        let finish = async { while running.next().await.is_some() {} };
        let _ = tokio::time::timeout(FINISH, finish).await;
    }

    /// Reads which webhooks send, if that may have changed. Failures are logged and tried again.
    async fn relist(&mut self, is_changed: bool) {
        let (validator, is_due) = (self.service.0.epoch.validator(), self.is_maintenance_due());
        let is_stale = is_changed || self.service.0.store.is_shared() || self.listed != Some(validator);
        let listed = if is_stale { self.list().await } else { Ok(()) };
        let done = match listed {
            Ok(()) => self.maintain().await,
            failed => failed,
        };
        if let Err(error) = done {
            tracing::warn!(%error, "failed to read the webhooks; retrying");
        }
        if is_changed || is_due {
            self.start_notices();
        }
    }

    /// Informs owners of disabled webhooks. A mail server that does not answer must not delay events.
    fn start_notices(&self) {
        let service = self.service.clone();
        tokio::spawn(async move {
            if let Err(error) = service.send_webhook_notices().await {
                tracing::warn!(%error, "failed to inform the owners of disabled webhooks; retrying");
            }
        });
    }

    /// Reads which webhooks send. Those that a request has changed begin anew at once.
    async fn list(&mut self) -> Result<(), Unavailable> {
        let validator = self.service.0.epoch.validator();
        let sending = self.service.0.store.webhooks().sending().await?;
        let ids: HashSet<_> = sending.iter().map(|webhook| webhook.id).collect();
        let gone: Vec<_> = self.webhooks.keys().copied().filter(|id| !ids.contains(id)).collect();
        for id in gone {
            self.remove(id);
        }
        if self.newest.is_none() && !sending.is_empty() {
            self.begin_together(&sending).await?;
        }
        for webhook in sending {
            self.update(webhook);
        }
        if self.webhooks.is_empty() {
            self.newest = None;
        }
        self.listed = Some(validator);
        Ok(())
    }

    /// Sets the position from which the webhooks read the log together, and begins to wait for new events.
    async fn begin_together(&mut self, sending: &[SendingWebhook]) -> Result<(), Unavailable> {
        let newest = self.service.0.events.subscribe();
        let log = self.service.0.store.events();
        let (oldest, end) = (log.oldest().await?, log.newest().await?);
        let earliest = oldest.max(EventCursor::after_number(end.number().saturating_sub(TOGETHER)));
        let near = sending.iter().map(|webhook| webhook.cursor).filter(|cursor| *cursor >= earliest);
        self.noted = near.min().map_or(end, |cursor| cursor.min(end));
        let next_tries = self.service.0.store.webhooks().next_tries().await?;
        for webhook in sending.iter().filter(|webhook| webhook.cursor >= earliest) {
            self.add(State::at(webhook.clone(), webhook.cursor));
        }
        self.newest = Some(newest);
        self.schedule_tries(next_tries);
        Ok(())
    }

    fn schedule_tries(&mut self, next_tries: Vec<(WebhookId, Timestamp)>) {
        for (id, next_try) in next_tries {
            if let Some(state) = self.webhooks.get_mut(&id).filter(|state| !state.is_running) {
                let earlier = state.round.next_try.map_or(next_try, |known| known.min(next_try));
                state.round.next_try = Some(earlier);
                self.reschedule(id);
            }
        }
    }

    /// Adds a webhook, or begins it anew if a request has changed it.
    fn update(&mut self, webhook: SendingWebhook) {
        match self.webhooks.get_mut(&webhook.id) {
            None => self.add(State::anew(webhook)),
            Some(state) if state.webhook.revision == webhook.revision => state.is_gone = false,
            Some(state) => {
                self.interests.remove(&state.webhook);
                self.interests.add(&webhook);
                let id = webhook.id;
                state.change(webhook);
                self.reschedule(id);
            }
        }
    }

    fn add(&mut self, state: State) {
        let id = state.webhook.id;
        self.interests.add(&state.webhook);
        self.webhooks.insert(id, state);
        self.reschedule(id);
    }

    fn remove(&mut self, id: WebhookId) {
        let Some(state) = self.webhooks.get_mut(&id) else { return };
        if state.is_running {
            // The webhook must not have a second round if it is listed again before this one ends.
            state.is_gone = true;
            return;
        }
        self.interests.remove(&state.webhook);
        self.webhooks.remove(&id);
        self.schedule.set(id, None);
    }

    /// Looks up new events, and schedules the webhooks that want them.
    async fn note_events(&mut self) -> Result<(), Unavailable> {
        let Some(newest) = &mut self.newest else { return Ok(()) };
        newest.borrow_and_update();
        loop {
            let mut wanting = HashSet::new();
            let note = |event: &mailapi_store::StoredEvent| {
                for id in self.interests.of(event) {
                    if self.webhooks.get_mut(&id).is_some_and(|state| state.note(event.cursor())) {
                        wanting.insert(id);
                    }
                }
            };
            let (noted, more) = self.service.visit_events(self.noted, note).await?;
            wanting.into_iter().for_each(|id| self.reschedule(id));
            self.noted = noted;
            if !more {
                return Ok(());
            }
        }
    }

    /// Moves the positions of webhooks past events that they do not want, so that a restart need not read these again.
    /// Looks for failed events of nodes that stopped.
    async fn maintain(&mut self) -> Result<(), Unavailable> {
        if !self.is_maintenance_due() {
            return Ok(());
        }
        self.maintained_at = self.service.0.clock.steady();
        if self.service.0.store.is_shared() {
            let next_tries = self.service.0.store.webhooks().next_tries().await?;
            self.schedule_tries(next_tries);
        }
        let to = self.noted;
        let passed: Vec<_> = self.webhooks.values().filter_map(|state| state.passed(to)).collect();
        for id in self.service.0.store.webhooks().pass(&passed, to, self.service.node()).await? {
            if let Some(state) = self.webhooks.get_mut(&id) {
                state.round.position = Some(Position::at(to));
            }
        }
        Ok(())
    }

    fn is_maintenance_due(&self) -> bool {
        self.service.0.clock.steady().saturating_sub(self.maintained_at) >= MAINTENANCE_INTERVAL
    }

    /// Begins webhooks anew that wait for times of a clock that was set back since.
    fn note_clock(&mut self, now: Timestamp) {
        let (shown, steady) = self.looked_at;
        self.looked_at = (now, self.service.0.clock.steady());
        let expected = shown.plus(self.looked_at.1.saturating_sub(steady));
        if expected.since(now) < CLOCK_TOLERANCE {
            return;
        }
        let waiting = self.webhooks.values_mut().filter(|state| state.waits_for_a_time());
        let ids: Vec<_> = waiting.map(State::begin_anew).collect();
        ids.into_iter().for_each(|id| self.reschedule(id));
    }

    /// Marks the webhooks that are due as running, and returns them.
    fn begin(&mut self, now: Timestamp) -> Vec<Due> {
        self.note_clock(now);
        let due = self.schedule.take_due(now);
        due.into_iter().filter_map(|id| self.webhooks.get_mut(&id)?.begin(self.noted)).collect()
    }

    async fn start(&mut self, running: &mut Running<RoundResult>) {
        if let Err(error) = self.note_events().await {
            tracing::warn!(%error, "failed to read events for webhooks; retrying");
        }
        for due in self.begin(self.service.0.clock.now()) {
            let service = self.service.clone();
            running.start(due.share.webhook, async move { due.round(&service).await });
        }
    }

    fn end(&mut self, id: WebhookId, round: Result<RoundResult, Unavailable>) {
        let now = self.service.0.clock.now();
        let Some(state) = self.webhooks.get_mut(&id) else { return };
        let round = round.unwrap_or_else(|error| {
            tracing::warn!(%error, webhook = %id, "failed to send events to a webhook; retrying");
            let until = Some(now.plus(ERROR_PAUSE));
            RoundResult { more: true, not_before: until, is_failing: state.round.is_failing, ..RoundResult::default() }
        });
        state.end(round);
        if state.is_gone {
            self.remove(id);
        } else {
            self.reschedule(id);
        }
    }

    fn reschedule(&mut self, id: WebhookId) {
        self.schedule.set(id, self.webhooks.get(&id).and_then(State::due_at));
    }

    /// Returns the time until the next webhook has something to do.
    fn rest(&self) -> Duration {
        let rest = self.schedule.rest(self.service.0.clock.now());
        rest.map_or(LIST_INTERVAL, |rest| rest.min(LIST_INTERVAL))
    }
}

/// A webhook whose round begins.
struct Due {
    share: Share,
    is_failing: bool,
    at: Option<Position>,
}

impl Due {
    /// Waits for a connection, and runs the round.
    async fn round(self, service: &Service) -> Result<RoundResult, Unavailable> {
        service.webhook_round(&self.share, self.is_failing, self.at).await
    }
}

impl State {
    /// A webhook whose events after the position are looked up from now on.
    fn at(webhook: SendingWebhook, cursor: EventCursor) -> Self {
        let position = Some(Position::at(cursor));
        let round = RoundResult { position, is_caught_up: true, ..RoundResult::default() };
        Self { round, ..Self::anew(webhook) }
    }

    /// A webhook that reads the log from its stored position.
    fn anew(webhook: SendingWebhook) -> Self {
        let round = RoundResult { more: true, ..RoundResult::default() };
        Self { webhook, round, wanted: None, is_running: false, is_outdated: false, is_gone: false }
    }

    /// Begins anew with what a request has changed.
    fn change(&mut self, webhook: SendingWebhook) {
        let (is_running, is_failing) = (self.is_running, self.round.is_failing);
        *self = Self { is_running, is_outdated: is_running, ..Self::anew(webhook) };
        self.round.is_failing = is_failing;
    }

    /// Returns whether a time decides when the webhook has its next round.
    const fn waits_for_a_time(&self) -> bool {
        self.is_running || self.round.next_try.is_some() || self.round.not_before.is_some()
    }

    /// Begins anew without a change; returns the webhook.
    fn begin_anew(&mut self) -> WebhookId {
        let is_gone = self.is_gone;
        self.change(self.webhook.clone());
        self.is_gone = is_gone;
        self.webhook.id
    }

    /// Notes an event that the webhook wants; returns whether it needs a round for it.
    fn note(&mut self, event: EventCursor) -> bool {
        if self.round.position.is_some_and(|at| event <= at.read) {
            return false;
        }
        let before = EventCursor::after_number(event.number().saturating_sub(1));
        let wanted = self.wanted.get_or_insert(Wanted { before, last: event });
        wanted.last = wanted.last.max(event);
        true
    }

    /// Returns the time of the next round; `None` during a round, and without work.
    fn due_at(&self) -> Option<Timestamp> {
        /// Also after the clock was set back.
        const AT_ONCE: Timestamp = Timestamp::from_millis(i64::MIN);
        let RoundResult { more, next_try, not_before, .. } = self.round;
        let has_work = more || self.wanted.is_some();
        let at = if has_work { Some(AT_ONCE) } else { next_try };
        at.filter(|_| !self.is_running).map(|at| not_before.map_or(at, |until| at.max(until)))
    }

    fn begin(&mut self, noted: EventCursor) -> Option<Due> {
        self.is_running = true;
        let share = Share { user: self.webhook.user.clone(), webhook: self.webhook.id };
        // A webhook that read everything wants none of the events up to the first one that was noted for it.
        let unwanted = self.wanted.map_or(noted, |wanted| wanted.before);
        let ahead = |at: Position| if self.round.is_caught_up { at.ahead(unwanted) } else { at };
        Some(Due { share, is_failing: self.round.is_failing, at: self.round.position.map(ahead) })
    }

    fn end(&mut self, round: RoundResult) {
        self.is_running = false;
        if std::mem::take(&mut self.is_outdated) {
            return;
        }
        self.round = round;
        let read = self.round.position.map_or_else(EventCursor::default, |at| at.read);
        self.wanted = self.wanted.filter(|wanted| wanted.last > read);
        if let Some(wanted) = &mut self.wanted {
            wanted.before = wanted.before.max(read);
        }
    }

    /// Returns the webhook if it wants no event up to `to`, and its position is far behind.
    fn passed(&self, to: EventCursor) -> Option<PassedWebhook> {
        let stored = self.round.position?.stored;
        let is_idle = self.round.is_caught_up && self.wanted.is_none() && !self.is_running && !self.round.more;
        let is_far = to.number().saturating_sub(stored.number()) >= PASSED;
        let SendingWebhook { id, revision, .. } = self.webhook;
        (is_idle && is_far).then_some(PassedWebhook { id, revision, stored })
    }
}

/// Waits for new events.
async fn grown(newest: Option<&mut watch::Receiver<EventCursor>>) {
    let Some(newest) = newest else { return std::future::pending().await };
    if newest.changed().await.is_err() {
        // The sender lives as long as the service.
        std::future::pending().await
    }
}
