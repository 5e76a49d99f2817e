//! Recovers messages whose hand-over was interrupted by a crash.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mailapi_backend::{Attempt, SubmitError};
use mailapi_model::{EmailAddress, MessageId, Reply};
use mailapi_store::{Failure, PendingMessage};
use tokio::sync::Notify;

use crate::{Service, Unavailable};

/// How many rows are looked at in one step.
const STEP: usize = 500;

/// Messages that this process is handing over at the moment: they are pending and need no recovery.
#[derive(Default)]
pub(crate) struct InFlight {
    messages: Mutex<HashSet<MessageId>>,
    one_ended: Notify,
}

/// Ends with the handing-over, however that ends.
pub(crate) struct InFlightGuard<'a>(&'a InFlight, MessageId);

impl InFlight {
    pub(crate) fn enter(&self, id: MessageId) -> InFlightGuard<'_> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        InFlightGuard(self, id)
    }

    pub(crate) fn contains(&self, id: MessageId) -> bool {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    /// Waits until this process is no longer handing over the message.
    pub(crate) async fn ended(&self, id: MessageId) {
        loop {
            let mut one_ended = pin!(self.one_ended.notified());
            one_ended.as_mut().enable();
            if !self.contains(id) {
                return;
            }
            one_ended.await;
        }
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.messages.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
        self.0.one_ended.notify_waiters();
    }
}

/// What a recovery found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Messages that the mail server has: they are submitted now.
    pub submitted: usize,
    /// Messages that the mail server never got: they are failed now.
    pub failed: usize,
    /// Messages of which the mail server can tell nothing at the moment: they stay pending.
    pub open: usize,
}

impl Service {
    /// Asks the mail server about messages that have been pending for at least `age`, and that this process is not
    /// handing over just now. At start-up `age` is zero: whatever is pending then was left by a crash.
    ///
    /// # Errors
    /// [`Unavailable`] when the account database is.
    pub async fn recover_once(&self, age: Duration) -> Result<Recovered, Unavailable> {
        let mut recovered = Recovered::default();
        let before = self.0.clock.now().minus(age);
        let sent = self.0.store.sent();
        let left =
            |message: &PendingMessage| message.created_at <= before && !self.0.in_flight.contains(message.message_id);
        let mut page = sent.pending(None, STEP).await?;
        // Those that stay open must not keep the later ones from their turn.
        while let Some(last) = page.last().map(|message| message.message_id) {
            for message in page.into_iter().filter(left) {
                self.recover(message, &mut recovered).await?;
            }
            page = sent.pending(Some(last), STEP).await?;
        }
        if recovered != Recovered::default() {
            let Recovered { submitted, failed, open } = recovered;
            tracing::warn!(submitted, failed, open, "messages were pending since before a stop");
        }
        Ok(recovered)
    }

    async fn recover(&self, message: PendingMessage, recovered: &mut Recovered) -> Result<(), Unavailable> {
        let (sent, now) = (self.0.store.sent(), self.0.clock.now());
        let PendingMessage { message_id: id, from: sender, created_at: since, node } = message;
        // Without node names there is only one process.
        let by_this_node = node == self.0.settings.node;
        match self.0.backend.submission.find(&Attempt { message_id: id, sender, since, by_this_node }).await {
            Ok(Some(accepted)) => {
                let refused: Vec<(EmailAddress, Reply)> =
                    accepted.refused.into_iter().map(|refusal| (refusal.recipient, refusal.reply)).collect();
                sent.submitted(id, &accepted.queue_id, now, &refused).await?;
                recovered.submitted += 1;
            }
            Ok(None) => {
                let reason = "the sending was interrupted, and the mail server never had the message in its queue";
                sent.failed(id, now, Failure { reason, reply: None, refused: &[] }).await?;
                recovered.failed += 1;
            }
            Err(SubmitError::Refused(_) | SubmitError::NoRecipients(_))
            | Err(SubmitError::Unavailable(_) | SubmitError::OutcomeUnknown) => recovered.open += 1,
        }
        Ok(())
    }

    /// Forgets what need not be kept any longer: the names of old requests, and sessions that ended a while ago.
    /// Returns how many of both were forgotten.
    ///
    /// # Errors
    /// [`Unavailable`] when the account database is.
    pub async fn prune_once(&self) -> Result<u64, Unavailable> {
        let now = self.0.clock.now();
        let ended = now.minus(self.0.settings.ended_sessions_kept);
        if self.0.store.tokens().end_sessions_until(now).await? > 0 {
            self.0.epoch.end();
        }
        let sessions = self.0.store.tokens().forget_sessions(ended).await?;
        let requests = self.0.store.sent().forget_requests(now).await?;
        // Last, since these need the mail server too.
        let closed = self.remove_closed_accounts().await?;
        Ok(sessions + requests + closed + self.expire_pending_domains().await?)
    }
}
