//! The queue ids of messages that a test submitted.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use mailapi_backend::{Accepted, Attempt, Record, Submission, SubmitError};
use mailapi_model::{Blob, Envelope};

/// Submits messages, and records the queue ids that the mail server assigned.
pub struct SubmissionRecorder {
    to: Arc<dyn Submission>,
    queue_ids: Mutex<Vec<String>>,
}

impl SubmissionRecorder {
    /// Wraps a submission port.
    #[must_use]
    pub fn new(to: Arc<dyn Submission>) -> Arc<Self> {
        Arc::new(Self { to, queue_ids: Mutex::default() })
    }

    /// Returns the queue ids of all accepted messages, in order.
    #[must_use]
    pub fn queue_ids(&self) -> Vec<String> {
        self.queue_ids.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Submission for SubmissionRecorder {
    async fn submit(&self, envelope: Envelope, message: Blob, record: &dyn Record) -> Result<Accepted, SubmitError> {
        let accepted = self.to.submit(envelope, message, record).await?;
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
