//! Recovers messages whose submission was interrupted by a crash.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mailapi_backend::{Attempt, SubmitError};
use mailapi_model::{EmailAddress, MessageId, Reply};
use mailapi_store::{Failure, PendingMessage};
use tokio::sync::Notify;

use crate::{Service, Unavailable};

/// Number of rows per read.
const STEP: usize = 500;

/// Messages that this process is submitting. They are pending and need no recovery.
#[derive(Default)]
pub(crate) struct InFlight {
    messages: Mutex<HashSet<MessageId>>,
    one_ended: Notify,
}

/// An entry of [`InFlight`]; dropping it removes the message.
pub(crate) struct InFlightGuard<'a>(&'a InFlight, MessageId);

impl InFlight {
    pub(crate) fn enter(&self, id: MessageId) -> InFlightGuard<'_> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        InFlightGuard(self, id)
    }

    pub(crate) fn contains(&self, id: MessageId) -> bool {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    /// Waits until this process is no longer submitting the message.
    pub(crate) async fn ended(&self, id: MessageId) {
        loop {
            // Register before the check, so that an end in between is not missed.
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

/// The result of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Messages that the mail server has; now submitted.
    pub submitted: usize,
    /// Messages that the mail server never received; now failed.
    pub failed: usize,
    /// Messages whose state the mail server cannot determine now; still pending.
    pub open: usize,
}

impl Service {
    /// Asks the mail server about messages pending for at least `age` that this process is not submitting. At
    /// start-up `age` is zero: all messages pending then were left by a crash.
    ///
    /// # Errors
    /// [`Unavailable`] if the account database is.
    pub async fn recover_once(&self, age: Duration) -> Result<Recovered, Unavailable> {
        let mut recovered = Recovered::default();
        let before = self.0.clock.now().minus(age);
        let sent = self.0.store.sent();
        let left =
            |message: &PendingMessage| message.created_at <= before && !self.0.in_flight.contains(message.message_id);
        let mut page = sent.pending(None, STEP).await?;
        // Page by identifier: messages that stay open must not block later ones.
        while let Some(last) = page.last().map(|message| message.message_id) {
            for message in page.into_iter().filter(left) {
                self.recover(message, &mut recovered).await?;
            }
            page = sent.pending(Some(last), STEP).await?;
        }
        if recovered != Recovered::default() {
            let Recovered { submitted, failed, open } = recovered;
            tracing::warn!(submitted, failed, open, "recovered messages left pending by an unclean shutdown");
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
                let recipients = sent.get(id).await?.map_or(0, |record| record.recipients.len());
                self.count_accepted(recipients, refused.len());
                self.0.events.wake();
                recovered.submitted += 1;
            }
            Ok(None) => {
                let reason = "sending was interrupted, and the mail server never queued the message";
                sent.failed(id, now, Failure { reason, reply: None, refused: &[] }).await?;
                self.0.events.wake();
                recovered.failed += 1;
            }
            Err(SubmitError::Refused(_) | SubmitError::NoRecipients(_))
            | Err(SubmitError::Unavailable(_) | SubmitError::OutcomeUnknown | SubmitError::NotRecorded(_)) => {
                recovered.open += 1;
            }
        }
        Ok(())
    }
}
