//! Submits mail to the operator's SMTP server, usually Postfix.
//!
//! The envelope leaves no trace at the server, so it is sent while the message's record is being stored. The
//! message waits at a [`CommitGate`] until the record is durable.

mod convert;
mod relaying;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{Accepted, Attempt, Record, Submission, SubmitError};
use mailapi_model::{Blob, Envelope};
use mailapi_smtp::client::{End, Outcome};

use crate::bounces::ReturnAddress;
use crate::log_follower::{LogFollower, LookupResult};
use crate::smtp_pool::{CommitGate, SmtpPool};
pub use relaying::Relaying;

/// Submits mail over SMTP. If a reply was lost, looks up the message in the log.
pub struct SmtpSubmission {
    pool: SmtpPool,
    /// `None` if the log is read on another machine.
    log: Option<Arc<LogFollower>>,
    /// `None` if bounces go to the author.
    returns: Option<ReturnAddress>,
    /// Whether other hosts, whose logs are read elsewhere, accept messages too.
    is_one_of_several: bool,
}

impl SmtpSubmission {
    /// Creates a submission over this pool.
    #[must_use]
    pub fn new(pool: SmtpPool, log: Option<Arc<LogFollower>>) -> Self {
        Self { pool, log, returns: None, is_one_of_several: false }
    }

    /// Sets the return addresses that become the reverse-path of each message; `None` uses the author's address.
    #[must_use]
    pub(crate) fn returning_to(self, returns: Option<ReturnAddress>) -> Self {
        Self { returns, ..self }
    }

    /// Sets whether this is one of several hosts that accept messages. Then a message that is not in this host's log
    /// may be in another one, so [`Submission::find`] never reports it as not accepted.
    #[must_use]
    pub(crate) fn one_of_several(self, is_one_of_several: bool) -> Self {
        Self { is_one_of_several, ..self }
    }
}

#[async_trait]
impl Submission for SmtpSubmission {
    async fn submit(&self, envelope: Envelope, message: Blob, record: &dyn Record) -> Result<Accepted, SubmitError> {
        let accepted = if record.may_repeat() {
            record.begin().await?;
            self.transmit(&envelope, message, CommitGate::opened()).await?
        } else {
            let (opener, commit_gate) = CommitGate::closed();
            let begin = async move {
                let begun = record.begin().await;
                match &begun {
                    Ok(()) => opener.open(),
                    // Dropping the opener cancels the transmission.
                    Err(_) => drop(opener),
                }
                begun
            };
            let (begun, transmitted) = tokio::join!(begin, self.transmit(&envelope, message, commit_gate));
            begun?;
            transmitted?
        };
        record.submitted(&accepted).await;
        Ok(accepted)
    }

    async fn find(&self, attempt: &Attempt) -> Result<Option<Accepted>, SubmitError> {
        let unavailable = |reason: &str| Err(SubmitError::Unavailable(reason.to_owned()));
        let Some(log) = &self.log else { return unavailable("the mail log is not read on this machine") };
        let mut found = look(log, attempt).await?;
        if found == LookupResult::Silent {
            // A log without a trace proves nothing if the server is down, so check that it responds.
            self.pool.greeting().await.map_err(SubmitError::Unavailable)?;
            log.note_alive(attempt.message_id);
            found = look(log, attempt).await?;
        }
        match found {
            LookupResult::Taken(accepted) => Ok(Some(accepted)),
            LookupResult::NotTaken if self.is_one_of_several => {
                unavailable("another mail host may have accepted the message")
            }
            LookupResult::NotTaken => Ok(None),
            LookupResult::Silent => unavailable("the mail server was silent for too long"),
            LookupResult::Undecided(reason) => unavailable(reason),
        }
    }

    async fn check(&self) -> Result<(), String> {
        self.pool.check().await
    }
}

impl SmtpSubmission {
    /// Transmits a message as soon as its commit gate opens.
    async fn transmit(
        &self,
        envelope: &Envelope,
        message: Blob,
        commit_gate: CommitGate,
    ) -> Result<Accepted, SubmitError> {
        let wire = convert::envelope(envelope, self.returns.as_ref());
        let sent = self.pool.send(&wire, message, commit_gate).await;
        let Outcome { rcpt_replies, end } = sent.map_err(SubmitError::Unavailable)?;
        let refused = || convert::refusals(envelope, &rcpt_replies);
        match end {
            End::Accepted(reply) => {
                let queue_id = convert::queue_id(&reply, envelope.message_id);
                // The log may lose its line; the reply then proves the queue id.
                if let Some(log) = &self.log {
                    log.note_submitted(envelope.message_id, &queue_id);
                }
                Ok(Accepted { queue_id, refused: refused() })
            }
            End::Refused { reply, .. } => Err(SubmitError::Refused(convert::reply(&reply))),
            End::NoRecipients => Err(SubmitError::NoRecipients(refused())),
            End::Failed(failure) => Err(SubmitError::Unavailable(failure.to_string())),
            End::OutcomeUnknown(failure) => {
                tracing::warn!(
                    message_id = %envelope.message_id, %failure,
                    "the connection ended before the reply to a message; its outcome is unknown"
                );
                if let Some(log) = &self.log {
                    log.note_lost(envelope.message_id);
                }
                Err(SubmitError::OutcomeUnknown)
            }
        }
    }
}

async fn look(log: &LogFollower, attempt: &Attempt) -> Result<LookupResult, SubmitError> {
    log.find(attempt).await.map_err(|error| SubmitError::Unavailable(error.to_string()))
}
