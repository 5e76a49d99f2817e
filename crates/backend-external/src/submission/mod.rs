//! Handing mail over to the operator's SMTP server, Postfix in most cases.

mod convert;
mod relaying;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{Accepted, Attempt, CommitGate, Submission, SubmitError};
use mailapi_model::{Envelope, Octets};
use mailapi_smtp::client::{End, Outcome};

use crate::bounces::ReturnAddress;
use crate::log_follower::{LogFollower, LookupResult};
use crate::smtp_pool::SmtpPool;
pub use relaying::Relaying;

/// Hands mail over by SMTP, and learns from the log what became of a message whose reply was lost.
pub struct SmtpSubmission {
    pool: SmtpPool,
    /// None where the log is read on another machine.
    log: Option<Arc<LogFollower>>,
    /// None where bounces go to the author.
    returns: Option<ReturnAddress>,
    /// Whether messages go to other hosts, too, whose logs are read elsewhere.
    is_one_of_several: bool,
}

impl SmtpSubmission {
    /// Submission over this pool.
    #[must_use]
    pub fn new(pool: SmtpPool, log: Option<Arc<LogFollower>>) -> Self {
        Self { pool, log, returns: None, is_one_of_several: false }
    }

    /// The same, with a reverse-path for each message that its bounces go to; `None` for the author's own address.
    #[must_use]
    pub fn returning_to(self, returns: Option<ReturnAddress>) -> Self {
        Self { returns, ..self }
    }

    /// The same, as one of several hosts to which messages go: what this host's log does not speak of may be in another
    /// one's, so it is never said that a message was not taken.
    #[must_use]
    pub fn one_of_several(self, is_one_of_several: bool) -> Self {
        Self { is_one_of_several, ..self }
    }
}

#[async_trait]
impl Submission for SmtpSubmission {
    async fn submit_when(
        &self,
        envelope: Envelope,
        message: Octets,
        commit_gate: CommitGate,
    ) -> Result<Accepted, SubmitError> {
        let wire = convert::envelope(&envelope, self.returns.as_ref());
        let sent = self.pool.send(&wire, message, commit_gate).await;
        let Outcome { rcpt_replies, end } = sent.map_err(SubmitError::Unavailable)?;
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
                if let Some(log) = &self.log {
                    log.note_lost(envelope.message_id);
                }
                Err(SubmitError::OutcomeUnknown)
            }
        }
    }

    async fn find(&self, attempt: &Attempt) -> Result<Option<Accepted>, SubmitError> {
        let unavailable = |reason: &str| Err(SubmitError::Unavailable(reason.to_owned()));
        let Some(log) = &self.log else { return unavailable("the mail log is not read on this machine") };
        let mut found = look(log, attempt).await?;
        if found == LookupResult::Silent {
            self.pool.greeting().await.map_err(SubmitError::Unavailable)?;
            log.note_alive(attempt.message_id);
            found = look(log, attempt).await?;
        }
        match found {
            LookupResult::Taken(accepted) => Ok(Some(accepted)),
            LookupResult::NotTaken if self.is_one_of_several => unavailable("another host may have the message"),
            LookupResult::NotTaken => Ok(None),
            LookupResult::Silent => unavailable("the mail server was silent for too long"),
            LookupResult::Undecided(reason) => unavailable(reason),
        }
    }

    async fn check(&self) -> Result<(), String> {
        self.pool.check().await
    }
}

async fn look(log: &LogFollower, attempt: &Attempt) -> Result<LookupResult, SubmitError> {
    log.find(attempt).await.map_err(|error| SubmitError::Unavailable(error.to_string()))
}
