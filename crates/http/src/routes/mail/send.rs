//! `POST /mail/send`.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{AttachmentFields, Draft, DraftFields, DraftLimits, MessageStatus, Violations};
use mailapi_service::mail::{SendError, SendRequest, Submitted};
use mailapi_service::{Buffer, Unavailable};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Caller;
use crate::contents::Contents;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::json::offload;
use crate::large_json::LargeJsonBody;
use crate::request_body::{AtLeastOne, CustomHeaders, request_body};
use crate::shape::{Base64, ContentId, FileName, HeaderText, MediaType, MessageState, NamedAddressText};
use crate::state::HttpState;

request_body! {
    /// A message to send.
    pub(crate) struct SendBody as "SendRequest" {
        /// Sender: `user@host` or `Name <user@host>`. The domain must be active, and the token must be allowed to send as
        /// this address.
        from: NamedAddressText,
        /// Recipients: at least one. By default at most 1,000 in `to`, `cc` and `bcc` together.
        to: AtLeastOne<NamedAddressText>,
        /// Carbon copy recipients.
        cc: Option<Vec<NamedAddressText>>,
        /// Blind carbon copy recipients, hidden from all other recipients.
        bcc: Option<Vec<NamedAddressText>>,
        /// Subject; empty by default.
        subject: Option<HeaderText>,
        /// Message text.
        body: MessageBody,
        /// Reply-To address: `user@host` or `Name <user@host>`.
        reply_to: Option<NamedAddressText>,
        /// Additional headers. Structural headers such as `From` or `Content-Type` cannot be set.
        headers: Option<CustomHeaders>,
        /// Attached files.
        attachments: Option<Vec<Attachment>>,
    }
    example {
        "from": "Alice <alice@example.test>", "to": ["Bob <bob@example.test>"], "cc": ["alice@example.test"],
        "subject": "Meeting minutes", "body": { "text": "See attached.", "html": "<p>See attached.</p>" },
        "reply_to": "alice@example.test", "headers": { "X-Campaign": "minutes" },
        "attachments": [{ "filename": "minutes.txt", "content": "SGVsbG8h", "content_type": "text/plain" }]
    }
}

request_body! {
    /// Message text: plain text, HTML, or both. At least one is required.
    pub(crate) struct MessageBody as "MessageBody" {
        /// Plain text.
        text: Option<String>,
        /// HTML.
        html: Option<String>,
    }
    example { "text": "See attached.", "html": "<p>See attached.</p>" }
}

request_body! {
    /// An attached file.
    pub(crate) struct Attachment as "SendAttachment" {
        /// File name, at most 255 bytes in UTF-8.
        filename: FileName,
        /// Content in base64.
        content: Base64,
        /// Media type, such as `text/plain; charset=utf-8`; `application/octet-stream` by default.
        content_type: Option<MediaType>,
        /// Content-ID of an inline file, with or without angle brackets. `cid:` links in the HTML body refer to it.
        content_id: Option<ContentId>,
    }
}

impl MessageBody {
    /// Returns the plain text and the HTML.
    pub(crate) fn into_texts(self) -> (Option<String>, Option<String>) {
        (self.text, self.html)
    }
}

/// Result of a send.
#[derive(Serialize, ToSchema)]
#[schema(as = SendResponse, example = json!({
    "success": true, "message_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "status": "submitted",
    "queue_id": "4CqFzY3Wz1z9rxR", "recipient_count": 2
}))]
pub(crate) struct Sent {
    /// Always true.
    success: bool,
    /// Message identifier for `/mail/{message_id}/status`.
    #[schema(format = "uuid")]
    message_id: String,
    /// Always `submitted`, even if every recipient was rejected permanently and the message is already `bounced`.
    #[schema(value_type = MessageState)]
    status: &'static str,
    /// Queue identifier at the mail server; the message identifier if there is none.
    queue_id: String,
    /// Number of recipients that the request listed in `to`, `cc` and `bcc`.
    recipient_count: u64,
}

impl From<Submitted> for Sent {
    fn from(submitted: Submitted) -> Self {
        Self {
            success: true,
            message_id: submitted.message_id.to_string(),
            status: MessageStatus::Submitted.as_str(),
            queue_id: submitted.queue_id.0,
            recipient_count: submitted.recipient_count,
        }
    }
}

documented_errors!(
    Errors,
    documented_with_body,
    [DomainNotAllowed, SenderNotAuthorized, IdempotencyConflict, SendFailed,]
);

/// Send a message
///
/// 202 means that the mail server accepted the message, or that it rejected every recipient permanently and the message
/// is `bounced`. `/mail/{message_id}/status` returns the outcome for each recipient.
///
/// `SEND_FAILED` means that the message was not accepted, or that the outcome is still open. `retryable` shows whether
/// a retry may succeed. Send an `Idempotency-Key` so that repeating a request never sends the message twice.
#[utoipa::path(post, path = "/mail/send", tag = "mail", operation_id = "send_message", request_body = SendBody,
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = r"^[ -~]+$",
        description = "1 to 255 printable ASCII characters. Repeating the request with the same key and body within 24 \
                       hours returns the first response and sends nothing.")),
        responses((status = 202, description = "The message was submitted to the mail server.", body = Sent), Errors))]
pub(crate) async fn send(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    mut body: LargeJsonBody,
) -> Result<(StatusCode, Json<Sent>), ApiError> {
    let limits = state.service().settings().draft;
    let _permits = body.permits.take();
    let buffer = state.service().buffer().clone();
    let request = offload(body.length, &state, move || read(body, &limits, &buffer)).await??;
    let submitted = state.service().send(&caller, request).await?;
    Ok((StatusCode::ACCEPTED, Json(submitted.into())))
}

/// Blocks on files when the body is large.
fn read(mut body: LargeJsonBody, limits: &DraftLimits, buffer: &Buffer) -> Result<SendRequest, ApiError> {
    let mut violations = Violations::none();
    let idempotency = body.idempotency.take().and_then(|key| violations.check("Idempotency-Key", key));
    let request = body.read::<SendBody>(violations)?;
    Ok(SendRequest { draft: Draft::parse(draft_fields(request, buffer)?, limits)?, idempotency })
}

fn draft_fields(request: SendBody, buffer: &Buffer) -> Result<DraftFields, Unavailable> {
    let SendBody { from, to, cc, bcc, subject, body, reply_to, headers, attachments } = request;
    let attachments = attachment_fields(attachments, buffer)?;
    Ok(DraftFields {
        from,
        to,
        cc: cc.unwrap_or_default(),
        bcc: bcc.unwrap_or_default(),
        subject,
        text: body.text,
        html: body.html,
        reply_to,
        headers: headers.unwrap_or_default(),
        attachments,
    })
}

/// Decodes the contents of attachments. Blocks on files when they are large.
pub(crate) fn attachment_fields(
    attachments: Option<Vec<Attachment>>,
    buffer: &Buffer,
) -> Result<Vec<AttachmentFields>, Unavailable> {
    let mut contents = Contents::new(buffer);
    let decode = |Attachment { filename, content, content_type, content_id }| {
        (AttachmentFields { filename, content: None, content_type, content_id }, contents.decode(content))
    };
    let (mut attachments, decoded): (Vec<_>, Vec<_>) = attachments.unwrap_or_default().into_iter().map(decode).unzip();
    let contents = contents.finish().map_err(Unavailable::Room)?;
    for (file, content) in attachments.iter_mut().zip(decoded) {
        file.content = content.map(|content| contents.get(content));
    }
    Ok(attachments)
}

/// `Retry-After` of a repeated request that waited for the first response in vain.
const RETRY_IN_FLIGHT: Duration = Duration::from_secs(5);

impl From<SendError> for ApiError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::SenderNotAuthorized => ErrorCode::SenderNotAuthorized.into(),
            SendError::DomainNotAllowed => ErrorCode::DomainNotAllowed.into(),
            SendError::TooLarge { limit } => {
                Self::new(ErrorCode::PayloadTooLarge, format!("The message is larger than {limit} bytes."))
            }
            SendError::LimitReached { reached, wait } => {
                Self::new(ErrorCode::RateLimitExceeded, format!("Daily sending limit reached: {reached}; see Retry-After."))
                    .after(wait)
            }
            SendError::IdempotencyConflict => ErrorCode::IdempotencyConflict.into(),
            SendError::IdempotencyInFlight => Self::new(
                ErrorCode::IdempotencyConflict,
                "The first request with this Idempotency-Key is still in progress; repeat the request after Retry-After.",
            )
            .after(RETRY_IN_FLIGHT),
            SendError::Failed { message_id, reason, retryable } => {
                let message = format!("The mail server did not accept message {message_id}: {reason}");
                Self::send_failed(message_id, retryable, message)
            }
            SendError::OutcomeUnknown { message_id } => {
                let message = format!("The mail server has not confirmed message {message_id}; see its status.");
                // Another send could deliver it twice.
                Self::send_failed(message_id, false, message)
            }
            SendError::Unavailable(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::RETRY_AFTER;
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn errors_worth_a_retry_have_a_retry_after() {
        let conflict = ApiError::from(SendError::IdempotencyConflict).into_response();
        assert_eq!((conflict.status(), conflict.headers().get(RETRY_AFTER)), (StatusCode::CONFLICT, None));
        let reached = mailapi_service::mail::SendLimitReached::Messages(7);
        let limited = ApiError::from(SendError::LimitReached { reached, wait: Duration::from_secs(60) });
        let limited = limited.into_response();
        assert_eq!(limited.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(limited.headers().get(RETRY_AFTER).unwrap(), "60");
        let in_flight = ApiError::from(SendError::IdempotencyInFlight).into_response();
        assert_eq!(
            (in_flight.status(), &in_flight.headers()[RETRY_AFTER]),
            (StatusCode::CONFLICT, &"5".parse().unwrap())
        );
    }
}
