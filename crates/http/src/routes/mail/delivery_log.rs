//! `GET /mail/delivery-log`.

use axum::extract::State;
use mailapi_model::{DeliveryLogEntry, EmailAddress, QueueId};
use mailapi_service::mail::{DeliveryLogError, DeliveryLogFilter};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::query::Query;
use crate::shape::{DateOrTime, DeliveryOutcome, EndDateOrTime, Moment, PageParameters};
use crate::state::HttpState;

/// A page of the delivery log.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeliveryLog {
    /// Always true.
    success: bool,
    /// Entries of the whole list.
    total: u64,
    /// The limit of this page.
    limit: u32,
    /// How many entries come before this page.
    offset: u64,
    /// The entries, newest first.
    entries: Vec<DeliveryLogItem>,
}

/// One try to deliver a message to one recipient.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryLogEntry, example = json!({
    "id": 42, "timestamp": "2026-11-20T10:15:30.300Z", "message_id": "67e55044-10b1-426f-9247-bb680e5fe0c8",
    "queue_id": "4CqFzY3Wz1z9rxR", "sender": "ann@example.org", "recipient": "bob@example.com", "final_recipient": null,
    "status": "sent", "dsn_code": "2.0.0", "smtp_response": "250 2.0.0 Ok", "relay": "mx.example.com[192.0.2.7]:25",
    "delay_seconds": 0.177
}))]
struct DeliveryLogItem {
    /// Its number; grows with every entry.
    id: i64,
    /// When the try ended.
    timestamp: Moment,
    /// The message's identifier; null when it did not come through this interface.
    #[schema(required, format = "uuid")]
    message_id: Option<String>,
    /// The mail server's name of the message.
    queue_id: String,
    /// The envelope's sender; empty for a bounce, which has none.
    sender: String,
    /// The recipient.
    recipient: String,
    /// The address that was tried in place of the recipient, an alias or one whose mail is forwarded; null when it was
    /// the recipient itself.
    #[schema(required)]
    final_recipient: Option<String>,
    /// How it ended.
    #[schema(value_type = DeliveryOutcome)]
    status: &'static str,
    /// The delivery status code, such as `5.0.0` for a reply that names only its class; null when there was no reply
    /// and nothing else to tell it from.
    #[schema(required)]
    dsn_code: Option<String>,
    /// What the next mail server said, or why there was none.
    smtp_response: String,
    /// The next mail server; null when there was none.
    #[schema(required)]
    relay: Option<String>,
    /// From the message's acceptance to the end of the try, in milliseconds' steps.
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

/// What a try to deliver ended as.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the names in the document; they are read as `mailapi_model::Outcome`")]
enum OutcomeName {
    /// The next mail server took it, or it lies in the mailbox.
    Sent,
    /// It will be tried again.
    Deferred,
    /// It was refused for good.
    Bounced,
    /// It was tried for too long.
    Expired,
    /// Refused temporarily when the message was sent; the mail server does not retry it.
    Failed,
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// Read the delivery log
///
/// For admins. Every try of the mail server, of all messages, newest first.
#[utoipa::path(get, path = "/mail/delivery-log", tag = "mail", operation_id = "list_delivery_log",
    params(
        ("message_id" = Option<String>, Query, format = "uuid", description = "Only entries of this message."),
        ("queue_id" = Option<String>, Query, description = "Only entries under this name in the mail server's queue."),
        ("sender" = Option<String>, Query, format = IdnEmail, description = "Only entries of mail from this address."),
        ("recipient" = Option<String>, Query, format = IdnEmail, description = "Only entries of mail to this address."),
        ("status" = inline(Option<OutcomeName>), Query, description = "Only entries that ended so.", example = "deferred"),
        ("start_date" = inline(Option<DateOrTime>), Query, description = "Only entries at this time or later.",
            example = "2026-11-20"),
        ("end_date" = inline(Option<EndDateOrTime>), Query,
            description = "Only entries before this time, or up to the end of this day."),
        PageParameters,
    ),
    responses((status = 200, description = "A page of the log.", body = DeliveryLog), Errors))]
pub(crate) async fn delivery_log(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    mut query: Query,
) -> Result<Json<DeliveryLog>, ApiError> {
    let filter = DeliveryLogFilter {
        message_id: query.parsed("message_id"),
        queue_id: query.text("queue_id").map(|id| QueueId(id.to_owned())),
        sender: query.parsed("sender"),
        recipient: query.parsed("recipient"),
        status: query.parsed("status"),
        start: query.start_date(),
        end: query.end_date(),
    };
    let page = query.page();
    query.check()?;
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
