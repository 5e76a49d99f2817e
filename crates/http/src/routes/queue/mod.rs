//! The mail server's queue, for admins.

mod cancel;
mod get;
mod hold;
mod list;
mod release;
mod retry;

use mailapi_model::QueueId;
use mailapi_service::Caller;
use mailapi_service::queue::{QueueCause, QueueChange, QueueEntry, QueueError, QueuedFor};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::error::{ApiError, ErrorCode};
use crate::path::PathParameters;
use crate::router::{Routes, api_routes as routes};
use crate::routes::to_the_end;
use crate::shape::{Moment, QueueStateName};
use crate::state::HttpState;

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list::list))
        .routes(routes!(get::get))
        .routes(routes!(retry::retry))
        .routes(routes!(hold::hold))
        .routes(routes!(release::release))
        .routes(routes!(cancel::cancel))
}

/// A message in the queue.
#[derive(Serialize, ToSchema)]
#[schema(as = QueuedMessage, example = json!({
    "queue_id": "1M82V7MR3Q2M9XKD", "message_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "sender": "alice@example.test",
    "size": 2048, "queued_at": "2026-11-20T10:15:30.123Z", "expires_at": "2026-11-25T10:15:30.123Z",
    "recipient_count": 1, "recipients": [{
        "email": "bob@example.com", "status": "deferred", "attempts": 2,
        "next_attempt_at": "2026-11-20T10:30:30.123Z", "last_reply": "450 4.2.0 Greylisted, try again later"
    }]
}))]
pub(crate) struct QueuedMessageInfo {
    /// Queue identifier at the mail server.
    queue_id: String,
    /// Message identifier; null if the message was not sent through this API, or if the mail server's log does not show
    /// it.
    #[schema(required, format = "uuid")]
    message_id: Option<String>,
    /// Envelope sender; empty for a bounce.
    sender: String,
    /// Size in bytes.
    size: u64,
    /// Time when the mail server accepted the message.
    queued_at: Moment,
    /// Time when the mail server gives up; null if it does not report it.
    #[schema(required)]
    expires_at: Option<Moment>,
    /// Number of recipients that are not finished.
    recipient_count: u64,
    /// Recipients that are not finished: at most 50 of each message in a list, and at most 1000 of a single message.
    recipients: Vec<QueuedRecipient>,
}

/// A recipient of a message in the queue.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "email": "bob@example.com", "status": "deferred", "attempts": 2, "next_attempt_at": "2026-11-20T10:30:30.123Z",
    "last_reply": "450 4.2.0 Greylisted, try again later"
}))]
struct QueuedRecipient {
    /// Recipient address.
    email: String,
    /// State of the recipient.
    #[schema(value_type = QueueStateName)]
    status: &'static str,
    /// Number of failed attempts, without those that `retry` and `release` started after the first one; null if the mail
    /// server does not report it.
    #[schema(required)]
    attempts: Option<u32>,
    /// Time of the next attempt; null while the message is on hold or being delivered, and if the mail server does not
    /// report it.
    #[schema(required)]
    next_attempt_at: Option<Moment>,
    /// Reply to the latest attempt, or the reason why there was none, at most 500 characters; null before the first
    /// attempt.
    #[schema(required)]
    last_reply: Option<String>,
}

impl From<QueueEntry> for QueuedMessageInfo {
    fn from(entry: QueueEntry) -> Self {
        Self {
            queue_id: entry.queue_id.0,
            message_id: entry.message_id.map(|id| id.to_string()),
            sender: entry.sender,
            size: entry.size,
            queued_at: entry.queued_at.into(),
            expires_at: entry.expires_at.map(Moment),
            recipient_count: entry.recipient_count,
            recipients: entry.recipients.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<QueuedFor> for QueuedRecipient {
    fn from(recipient: QueuedFor) -> Self {
        Self {
            email: recipient.email,
            status: recipient.state.as_str(),
            attempts: recipient.attempts,
            next_attempt_at: recipient.next_attempt_at.map(Moment),
            last_reply: recipient.last_reply,
        }
    }
}

/// Result of a change of a message in the queue.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The message is due now.", "queue_id": "1M82V7MR3Q2M9XKD" }))]
pub(crate) struct QueueChanged {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Queue identifier.
    queue_id: String,
}

/// Message in the path.
fn queue_id_in(path: &PathParameters) -> QueueId {
    QueueId(path.text("queue_id").to_owned())
}

/// Changes the message in the path, even if the client disconnects.
async fn changed(
    state: HttpState,
    caller: Caller,
    path: &PathParameters,
    change: QueueChange,
    message: &'static str,
) -> Result<Json<QueueChanged>, ApiError> {
    let (service, id) = (state.service().clone(), queue_id_in(path));
    let queue_id = id.0.clone();
    to_the_end(async move { service.change_queued_message(&caller, &id, change).await }).await??;
    Ok(Json(QueueChanged { success: true, message, queue_id }))
}

impl From<QueueError> for ApiError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Denied(denied) => denied.into(),
            QueueError::Queue(QueueCause::NotFound) => ErrorCode::QueueMessageNotFound.into(),
            QueueError::Queue(QueueCause::Busy) => ErrorCode::QueueMessageBusy.into(),
            QueueError::Queue(QueueCause::Held) => ErrorCode::QueueMessageHeld.into(),
            // Only admins get these, and they need the reason.
            QueueError::Queue(QueueCause::Unsupported(what)) => Self::new(ErrorCode::QueueUnsupported, what),
            QueueError::Queue(cause @ QueueCause::Unavailable(_)) => {
                tracing::error!(error = %cause, "queue unavailable");
                Self::new(ErrorCode::QueueUnavailable, cause.to_string())
            }
        }
    }
}
