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

/// What became of a message.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageStatus, example = json!({
    "success": true, "message_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "status": "partial",
    "created_at": "2026-11-20T10:15:30.123Z", "submitted_at": "2026-11-20T10:15:30.140Z", "recipients": [
        { "email": "bob@example.org", "type": "to", "status": "sent", "dsn_code": "2.0.0",
          "delivered_at": "2026-11-20T10:15:30.300Z" },
        { "email": "nobody@example.com", "type": "cc", "status": "bounced", "dsn_code": "5.1.1",
          "smtp_response": "550 5.1.1 No such user", "bounced_at": "2026-11-20T10:15:31.000Z" }
    ]
}))]
pub(crate) struct StatusRecord {
    /// Always true.
    success: bool,
    /// The message's identifier.
    #[serde(serialize_with = "written")]
    #[schema(value_type = String, format = "uuid")]
    message_id: MessageId,
    /// What became of it.
    #[schema(value_type = MessageState)]
    status: &'static str,
    /// When the message was stored.
    created_at: Moment,
    /// When it was handed to the mail server; null when that failed.
    #[schema(required)]
    submitted_at: Option<Moment>,
    /// Each recipient by itself.
    recipients: Vec<RecipientRecord>,
}

/// What became of a message for one recipient.
#[derive(Serialize, ToSchema)]
struct RecipientRecord {
    /// Who.
    #[serde(serialize_with = "shown")]
    #[schema(value_type = String)]
    email: EmailAddress,
    /// The list of the request that named it first.
    #[schema(value_type = RecipientKindName)]
    r#type: &'static str,
    /// What became of the message for this recipient.
    #[schema(value_type = RecipientState)]
    status: &'static str,
    /// The newest delivery status code, such as `5.0.0` for a reply that names only its class; null when there is none
    /// yet.
    #[schema(required)]
    dsn_code: Option<String>,
    /// When it was delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<Moment>,
    /// With `bounced`: when that became known.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounced_at: Option<Moment>,
    /// When it last bounced for one of several addresses that stand behind this one: the others may have got the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    partly_bounced_at: Option<Moment>,
    /// What the mail server of that address said.
    #[serde(skip_serializing_if = "Option::is_none")]
    partly_bounced_response: Option<String>,
    /// With `deferred`, `bounced` and `failed`: what the next mail server said.
    #[serde(skip_serializing_if = "Option::is_none")]
    smtp_response: Option<String>,
    /// With `deferred`: how often delivery was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    /// With `deferred`: when it was last tried.
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
            // One that bounced later was delivered once, as far as the next mail server said.
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
/// For the token that sent the message, every token of the same mailbox, and admins. To everybody else the message
/// does not exist.
#[utoipa::path(get, path = "/mail/{message_id}/status", tag = "mail", operation_id = "get_message_status",
    params(("message_id" = String, Path, format = "uuid", description = "The identifier that `POST /mail/send` gave.",
        example = "67e55044-10b1-426f-9247-bb680e5fe0c8")),
    responses((status = 200, description = "What became of the message.", body = StatusRecord), Errors))]
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
