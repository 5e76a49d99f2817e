//! Handing mail over to the operator's SMTP server, Postfix in most cases.

mod convert;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mailapi_backend::{Accepted, Attempt, Submission, SubmitError};
use mailapi_model::{Envelope, MessageId};
use mailapi_smtp::client::{End, Outcome};
use tokio::time::Instant;

use crate::bounces::ReturnAddress;
use crate::log_follower::{LogFollower, Trace};
use crate::smtp_pool::SmtpPool;

/// Hands mail over by SMTP, and learns from the log what became of a message whose reply was lost.
pub struct SmtpSubmission {
    pool: SmtpPool,
    /// None where the log is read on another machine.
    log: Option<Arc<LogFollower>>,
    settle_time: Duration,
    /// None where bounces go to the author.
    returns: Option<ReturnAddress>,
    /// When the replies to messages were lost: the mail server may still be at work on them.
    unknown: Mutex<HashMap<MessageId, Instant>>,
}

impl SmtpSubmission {
    /// Submission over this pool. For `settle_time` after a reply was lost, the log's silence about a message says
    /// nothing; it should be as long as the mail server's filters may take.
    #[must_use]
    pub fn new(pool: SmtpPool, log: Option<Arc<LogFollower>>, settle_time: Duration) -> Self {
        Self { pool, log, settle_time, returns: None, unknown: Mutex::default() }
    }

    /// The same, with a reverse-path for each message that its bounces go to; `None` for the author's own address.
    #[must_use]
    pub fn returning_to(self, returns: Option<ReturnAddress>) -> Self {
        Self { returns, ..self }
    }

    fn note_unknown(&self, message_id: MessageId) {
        let now = Instant::now();
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.retain(|_, since| now.duration_since(*since) < self.settle_time);
        unknown.insert(message_id, now);
    }

    fn may_still_arrive(&self, message_id: MessageId) -> bool {
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.get(&message_id).is_some_and(|since| since.elapsed() < self.settle_time)
    }
}

#[async_trait]
impl Submission for SmtpSubmission {
    async fn submit(&self, envelope: Envelope, message: Bytes) -> Result<Accepted, SubmitError> {
        let wire = convert::envelope(&envelope, self.returns.as_ref());
        let Outcome { rcpt_replies, end } = self.pool.send(&wire, &message).await.map_err(SubmitError::Unavailable)?;
        let refused = || convert::refusals(&envelope, &rcpt_replies);
        match end {
            End::Accepted(reply) => {
                let queue_id = convert::queue_id(&reply, envelope.message_id);
                if let Some(log) = &self.log {
                    log.note_submitted(envelope.message_id, &queue_id);
                }
                Ok(Accepted { queue_id, refused: refused() })
            }
            End::Refused { reply, .. } => Err(SubmitError::Refused(convert::reply(&reply))),
            End::NoRecipients => Err(SubmitError::NoRecipients(refused())),
            End::Failed(failure) => Err(SubmitError::Unavailable(failure.to_string())),
            End::OutcomeUnknown(failure) => {
                tracing::warn!(message_id = %envelope.message_id, %failure, "the reply to a message was lost");
                self.note_unknown(envelope.message_id);
                Err(SubmitError::OutcomeUnknown)
            }
        }
    }

    async fn find(&self, attempt: &Attempt) -> Result<Option<Accepted>, SubmitError> {
        let message_id = attempt.message_id;
        let unavailable = |reason: &str| Err(SubmitError::Unavailable(reason.to_owned()));
        let Some(log) = &self.log else { return unavailable("the mail log is not read on this machine") };
        match log.find(message_id).await.map_err(|error| SubmitError::Unavailable(error.to_string()))? {
            Trace::Taken(accepted) => Ok(Some(accepted)),
            Trace::Undecided(reason) => unavailable(reason),
            Trace::NotTaken if self.may_still_arrive(message_id) => {
                unavailable("the mail server may still be at work on the message")
            }
            Trace::NotTaken => Ok(None),
        }
    }

    async fn check(&self) -> Result<(), String> {
        self.pool.check().await
    }
}
