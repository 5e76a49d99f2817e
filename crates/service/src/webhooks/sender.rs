//! Sends events to all webhooks. Each webhook has its own task, so a slow receiver delays no other.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use mailapi_events::EventCursor;
use mailapi_model::{Timestamp, WebhookId};
use tokio::sync::watch;

use super::plan::is_over;
use super::round::{Position, RoundResult};
use super::running::Running;
use crate::{Service, Unavailable};

/// The time between two looks for webhooks that other processes and nodes changed.
const LIST_INTERVAL: Duration = Duration::from_secs(5);
/// The pause of a webhook after an error of the database.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// The time that attempts in progress get to finish at shutdown. Interrupted ones are repeated after the next start.
const FINISH: Duration = Duration::from_secs(2);

/// Sends events to all webhooks.
pub struct WebhookSender {
    service: Service,
    webhooks: HashMap<WebhookId, State>,
    /// The signal for new events. Without webhooks there is none, so that the log is not read.
    newest: Option<watch::Receiver<EventCursor>>,
}

/// The state of one webhook between its rounds.
#[derive(Debug, Default)]
struct State {
    round: RoundResult,
    /// The newest event when the last round began.
    seen: EventCursor,
    is_running: bool,
}

impl Service {
    /// Returns the sender of this process; nothing runs yet.
    #[must_use]
    pub fn webhook_sender(&self) -> WebhookSender {
        WebhookSender { service: self.clone(), webhooks: HashMap::new(), newest: None }
    }
}

impl WebhookSender {
    /// Reads new events, sends what is due now, and returns whether there is more to do at once.
    ///
    /// # Errors
    /// [`Unavailable`] if the database is.
    pub async fn send_once(&mut self) -> Result<bool, Unavailable> {
        let is_changed = self.service.0.webhooks.changed.notified().now_or_never().is_some();
        self.list().await?;
        if is_changed {
            self.begin_all_anew();
        }
        while self.service.read_events_once().await? {}
        let (service, now) = (self.service.clone(), self.service.0.clock.now());
        let due = self.begin(now);
        let run = |(id, at)| {
            let service = service.clone();
            async move { Ok::<_, Unavailable>((id, service.webhook_round(id, at).await?)) }
        };
        for (id, round) in try_join_all(due.into_iter().map(run)).await? {
            self.end(id, Ok(round));
        }
        Ok(self.webhooks.values().any(|state| state.round.more))
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
            self.start(&mut running);
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

    /// Reads which webhooks send.
    async fn list(&mut self) -> Result<(), Unavailable> {
        let sending = self.service.0.store.webhooks().sending().await?;
        self.webhooks.retain(|id, state| state.is_running || sending.binary_search(id).is_ok());
        for id in sending {
            self.webhooks.entry(id).or_insert_with(|| State { round: anew(None), ..State::default() });
        }
        if self.webhooks.is_empty() {
            self.newest = None;
        } else {
            self.newest.get_or_insert_with(|| self.service.0.events.subscribe());
        }
        Ok(())
    }

    /// Reads which webhooks send. After a change of this process, each begins at once.
    async fn relist(&mut self, is_changed: bool) {
        if let Err(error) = self.list().await {
            tracing::warn!(%error, "failed to read the webhooks; retrying");
        }
        if is_changed {
            self.begin_all_anew();
        }
    }

    fn begin_all_anew(&mut self) {
        self.webhooks.values_mut().for_each(|state| state.round = anew(state.round.position));
    }

    /// Marks the webhooks that have something to do as running, and returns them.
    fn begin(&mut self, now: Timestamp) -> Vec<(WebhookId, Option<Position>)> {
        let newest = self.newest.as_mut().map_or_else(EventCursor::default, |newest| *newest.borrow_and_update());
        let mut due = Vec::new();
        for (id, state) in &mut self.webhooks {
            if state.is_due(now, newest) {
                (state.is_running, state.seen) = (true, newest);
                due.push((*id, state.round.position));
            }
        }
        due
    }

    fn start(&mut self, running: &mut Running<RoundResult>) {
        for (id, at) in self.begin(self.service.0.clock.now()) {
            let service = self.service.clone();
            running.start(id, async move { service.webhook_round(id, at).await });
        }
    }

    fn end(&mut self, id: WebhookId, round: Result<RoundResult, Unavailable>) {
        let now = self.service.0.clock.now();
        let Some(state) = self.webhooks.get_mut(&id) else { return };
        state.is_running = false;
        state.round = round.unwrap_or_else(|error| {
            tracing::warn!(%error, webhook = %id, "failed to send events to a webhook; retrying");
            let until = Some(now.plus(ERROR_PAUSE));
            RoundResult { next_try: until, not_before: until, ..RoundResult::default() }
        });
    }

    /// Returns the time until the next webhook has something to do.
    fn rest(&self) -> Duration {
        let now = self.service.0.clock.now();
        let idle = self.webhooks.values().filter(|state| !state.is_running);
        let next = idle.filter_map(|state| state.round.next_try.max(state.round.not_before)).min();
        next.map_or(LIST_INTERVAL, |next| next.since(now).min(LIST_INTERVAL))
    }
}

impl State {
    fn is_due(&self, now: Timestamp, newest: EventCursor) -> bool {
        let RoundResult { more, next_try, not_before, .. } = self.round;
        let has_work = more || newest > self.seen || next_try.is_some_and(|next| is_over(next, now));
        has_work && !self.is_running && not_before.is_none_or(|until| is_over(until, now))
    }
}

/// Returns a result after which the next round begins at once.
fn anew(position: Option<Position>) -> RoundResult {
    RoundResult { more: true, position, ..RoundResult::default() }
}

/// Waits for new events.
async fn grown(newest: Option<&mut watch::Receiver<EventCursor>>) {
    let Some(newest) = newest else { return std::future::pending().await };
    if newest.changed().await.is_err() {
        // The sender lives as long as the service.
        std::future::pending().await
    }
}
