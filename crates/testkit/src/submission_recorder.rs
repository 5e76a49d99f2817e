//! What a test handed to a mail server.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use mailapi_backend::{Accepted, Attempt, CommitGate, Submission, SubmitError};
use mailapi_model::{Envelope, Octets};

/// Hands messages over, and remembers under which queue ids the mail server took them.
pub struct SubmissionRecorder {
    to: Arc<dyn Submission>,
    queue_ids: Mutex<Vec<String>>,
}

impl SubmissionRecorder {
    /// Nothing was handed over so far.
    #[must_use]
    pub fn new(to: Arc<dyn Submission>) -> Arc<Self> {
        Arc::new(Self { to, queue_ids: Mutex::default() })
    }

    /// Of all messages that the mail server took, the first one first.
    #[must_use]
    pub fn queue_ids(&self) -> Vec<String> {
        self.queue_ids.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Submission for SubmissionRecorder {
    async fn submit_when(
        &self,
        envelope: Envelope,
        message: Octets,
        commit_gate: CommitGate,
    ) -> Result<Accepted, SubmitError> {
        let accepted = self.to.submit_when(envelope, message, commit_gate).await?;
        self.queue_ids.lock().unwrap_or_else(PoisonError::into_inner).push(accepted.queue_id.0.clone());
        Ok(accepted)
    }

    async fn find(&self, attempt: &Attempt) -> Result<Option<Accepted>, SubmitError> {
        self.to.find(attempt).await
    }

    async fn check(&self) -> Result<(), String> {
        self.to.check().await
    }
}
