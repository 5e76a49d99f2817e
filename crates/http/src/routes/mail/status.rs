//! `GET /mail/{message_id}/status`.

use axum::extract::State;
use mailapi_model::{EmailAddress, MessageId, RecipientStatus, SentRecipient};
use mailapi_service::mail::{SentRecord, StatusError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::path::PathParameters;
use crate::shape::{MessageState, Moment, RecipientKindName, RecipientState, shown, written};
use crate::state::HttpState;

/// Status of a message and of each recipient.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageStatus, example = json!({
    "success": true, "message_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "status": "partial",
    "created_at": "2026-11-20T10:15:30.123Z", "submitted_at": "2026-11-20T10:15:30.140Z", "recipients": [
                { "email": "bob@example.test", "type": "to", "status": "sent", "dsn_code": "2.0.0",
                  "delivered_at": "2026-11-20T10:15:30.300Z" },
                { "email": "unknown@example.test", "type": "cc", "status": "bounced", "dsn_code": "5.1.1",
          "smtp_response": "550 5.1.1 No such user", "bounced_at": "2026-11-20T10:15:31.000Z" }
    ]
}))]
pub(crate) struct StatusRecord {
    /// Always true.
    success: bool,
    /// Message identifier.
    #[serde(serialize_with = "written")]
    #[schema(value_type = String, format = "uuid")]
    message_id: MessageId,
    /// Message status.
    #[schema(value_type = MessageState)]
    status: &'static str,
    /// Time when the message was stored.
    created_at: Moment,
    /// Time when the mail server accepted the message; null if it did not.
    #[schema(required)]
    submitted_at: Option<Moment>,
    /// Status of each recipient.
    recipients: Vec<RecipientRecord>,
}

/// Delivery status of one recipient.
#[derive(Serialize, ToSchema)]
struct RecipientRecord {
    /// Recipient address.
    #[serde(serialize_with = "shown")]
    #[schema(value_type = String)]
    email: EmailAddress,
    /// Recipient list that named the address first.
    #[schema(value_type = RecipientKindName)]
    r#type: &'static str,
    /// Status for this recipient.
    #[schema(value_type = RecipientState)]
    status: &'static str,
    /// Latest enhanced status code (RFC 3463), such as `5.1.1`; null if there is none yet. A reply without one is
    /// reported by its class, such as `5.0.0`.
    #[schema(required)]
    dsn_code: Option<String>,
    /// Delivery time.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<Moment>,
    /// With `bounced`: time when the bounce was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounced_at: Option<Moment>,
    /// Time of the latest bounce of one address that this recipient (an alias) expands to. Other addresses may have
    /// received the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    partly_bounced_at: Option<Moment>,
    /// Reply of that address's mail server.
    #[serde(skip_serializing_if = "Option::is_none")]
    partly_bounced_response: Option<String>,
    /// With `deferred`, `bounced` and `failed`: reply of the next mail server.
    #[serde(skip_serializing_if = "Option::is_none")]
    smtp_response: Option<String>,
    /// With `deferred`: number of delivery attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    /// With `deferred`: time of the latest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_attempt_at: Option<Moment>,
}

impl From<SentRecord> for StatusRecord {
    fn from(SentRecord { message, recipients }: SentRecord) -> Self {
        Self {
            success: true,
            message_id: message.message_id,
            status: message.status.as_str(),
            created_at: message.created_at.into(),
            submitted_at: message.submitted_at.map(Moment),
            recipients: recipients.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<SentRecipient> for RecipientRecord {
    fn from(recipient: SentRecipient) -> Self {
        use RecipientStatus::{Bounced, Deferred, Failed, Sent};
        let status = recipient.status;
        let is = |states: &[RecipientStatus]| states.contains(&status);
        Self {
            email: recipient.email,
            r#type: recipient.kind.as_str(),
            status: status.as_str(),
            dsn_code: recipient.dsn.map(|code| code.to_string()),
            // A recipient that bounced later has both times: the next mail server accepted the message first.
            delivered_at: recipient.delivered_at.filter(|_| is(&[Sent, Bounced])).map(Moment),
            bounced_at: recipient.bounced_at.filter(|_| is(&[Bounced])).map(Moment),
            partly_bounced_at: recipient.partly_bounced_at.filter(|_| !is(&[Bounced, Failed])).map(Moment),
            partly_bounced_response: recipient.partly_bounced_response.filter(|_| !is(&[Bounced, Failed])),
            smtp_response: recipient.smtp_response.filter(|_| is(&[Deferred, Bounced, Failed])),
            attempts: is(&[Deferred]).then_some(recipient.attempts),
            last_attempt_at: recipient.last_attempt_at.filter(|_| is(&[Deferred])).map(Moment),
        }
    }
}

documented_errors!(Errors, documented, [MessageNotFound]);

/// Get a message's status
///
/// For the token that sent the message, other tokens of the same mailbox, and admins. Other callers get
/// `MESSAGE_NOT_FOUND`.
#[utoipa::path(get, path = "/mail/{message_id}/status", tag = "mail", operation_id = "get_message_status",
    params(("message_id" = String, Path, format = "uuid", description = "Message identifier returned by `POST /mail/send`.",
        example = "67e55044-10b1-426f-9247-bb680e5fe0c8")),
    responses((status = 200, description = "The status of the message.", body = StatusRecord), Errors))]
pub(crate) async fn status(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<StatusRecord>, ApiError> {
    let id = path.parsed("message_id").ok_or(ErrorCode::MessageNotFound)?;
    Ok(Json(state.service().status(&caller, id).await?.into()))
}

impl From<StatusError> for ApiError {
    fn from(error: StatusError) -> Self {
        match error {
            StatusError::NotFound => ErrorCode::MessageNotFound.into(),
            StatusError::Unavailable(error) => error.into(),
        }
    }
}
