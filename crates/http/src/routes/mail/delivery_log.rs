//! `GET /mail/delivery-log`.

use axum::extract::State;
use mailapi_model::{DeliveryLogEntry, EmailAddress, MessageId, QueueId};
use mailapi_service::mail::{DeliveryLogError, DeliveryLogFilter};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::query::{EndDate, PageParameters, Query, StartDate, query_parameters};
use crate::shape::{DeliveryOutcome, Moment};
use crate::state::HttpState;

/// A page of the delivery log.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeliveryLog {
    /// Always true.
    success: bool,
    /// Total number of entries.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Entries, newest first.
    entries: Vec<DeliveryLogItem>,
}

/// One delivery attempt for one recipient.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryLogEntry, example = json!({
    "id": 42, "timestamp": "2026-11-20T10:15:30.300Z", "message_id": "67e55044-10b1-426f-9247-bb680e5fe0c8",
    "queue_id": "4CqFzY3Wz1z9rxR", "sender": "alice@example.test", "recipient": "bob@example.com", "final_recipient": null,
    "status": "sent", "dsn_code": "2.0.0", "smtp_response": "250 2.0.0 Ok", "relay": "mx.example.com[192.0.2.7]:25",
    "delay_seconds": 0.177
}))]
struct DeliveryLogItem {
    /// Entry number; newer entries have higher numbers.
    id: i64,
    /// Time when the attempt ended.
    timestamp: Moment,
    /// Message identifier; null if the message was not sent through this API.
    #[schema(required, format = "uuid")]
    message_id: Option<String>,
    /// Queue identifier at the mail server.
    queue_id: String,
    /// Envelope sender; empty for a bounce.
    sender: String,
    /// Recipient address.
    recipient: String,
    /// Address that the mail server tried for an alias or a forwarding address; null if it is the recipient.
    #[schema(required)]
    final_recipient: Option<String>,
    /// Outcome of the attempt.
    #[schema(value_type = DeliveryOutcome)]
    status: &'static str,
    /// Enhanced status code (RFC 3463), such as `5.1.1`; null if unknown. A reply without one is reported by its class,
    /// such as `5.0.0`.
    #[schema(required)]
    dsn_code: Option<String>,
    /// Reply of the next mail server, or the reason why there was none.
    smtp_response: String,
    /// Next mail server; null if there was none.
    #[schema(required)]
    relay: Option<String>,
    /// Seconds from the acceptance of the message to the end of the attempt, with millisecond precision.
    delay_seconds: f64,
}

impl From<DeliveryLogEntry> for DeliveryLogItem {
    fn from(DeliveryLogEntry { id, event }: DeliveryLogEntry) -> Self {
        Self {
            id,
            timestamp: event.at.into(),
            message_id: event.message_id.map(|id| id.to_string()),
            queue_id: event.queue_id.0,
            sender: event.sender.as_ref().map_or("", EmailAddress::shown).to_owned(),
            recipient: event.recipient.shown().to_owned(),
            final_recipient: event.final_recipient.as_ref().map(|tried| tried.shown().to_owned()),
            status: event.outcome.as_str(),
            dsn_code: event.dsn.map(|code| code.to_string()),
            smtp_response: event.response,
            relay: event.relay,
            delay_seconds: event.delay.as_millis() as f64 / 1000.0,
        }
    }
}

query_parameters! {
    /// Filters of the list.
    pub(crate) struct ListDeliveryLog {
        /// Only entries for this message.
        message_id: Option<MessageId>;
        /// Only entries with this queue identifier.
        queue_id: Option<String>;
        /// Only entries for mail from this address.
        sender: Option<EmailAddress>;
        /// Only entries for mail to this address.
        recipient: Option<EmailAddress>;
        /// Only entries with this outcome.
        status: Option<DeliveryOutcome>;
        /// Only entries at this time or later.
        start_date: Option<StartDate>;
        /// Only entries before this time, or up to the end of this date.
        end_date: Option<EndDate>;
        /// Page of the list.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// List delivery log entries
///
/// For admins. Returns every delivery attempt of the mail server, for all messages, newest first.
#[utoipa::path(get, path = "/mail/delivery-log", tag = "mail", operation_id = "list_delivery_log",
    params(ListDeliveryLog),
    responses((status = 200, description = "A page of the delivery log.", body = DeliveryLog), Errors))]
pub(crate) async fn delivery_log(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    query: Query<ListDeliveryLog>,
) -> Result<Json<DeliveryLog>, ApiError> {
    let ListDeliveryLog { message_id, queue_id, sender, recipient, status, start_date, end_date, page } =
        query.read()?;
    let filter = DeliveryLogFilter {
        message_id,
        queue_id: queue_id.map(QueueId),
        sender,
        recipient,
        status,
        start: start_date,
        end: end_date,
    };
    let listed = state.service().delivery_log(&caller, &filter, page).await?;
    Ok(Json(DeliveryLog {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        entries: listed.items.into_iter().map(Into::into).collect(),
    }))
}

impl From<DeliveryLogError> for ApiError {
    fn from(error: DeliveryLogError) -> Self {
        match error {
            DeliveryLogError::Denied(denied) => denied.into(),
            DeliveryLogError::Unavailable(error) => error.into(),
        }
    }
}
