//! `GET /mail/sent`.

use axum::extract::State;
use mailapi_model::{EmailAddress, MessageId, SentSummary};
use mailapi_service::mail::{ListSentError, SentQuery};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::Query;
use crate::shape::{DateOrTime, EndDateOrTime, MessageState, Moment, PageParameters, shown, written};
use crate::state::HttpState;

/// A page of sent messages.
#[derive(Serialize, ToSchema)]
pub(crate) struct SentListed {
    /// Always true.
    success: bool,
    /// Messages of the whole list.
    total: u64,
    /// The limit of this page.
    limit: u32,
    /// How many messages come before this page.
    offset: u64,
    /// The messages, newest first.
    messages: Vec<SentItem>,
}

/// A sent message in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = SentMessage, example = json!({
    "message_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "from": "ann@example.org", "to": ["bob@example.org"],
    "subject": "The minutes", "status": "sent", "created_at": "2026-11-20T10:15:30.123Z",
    "submitted_at": "2026-11-20T10:15:30.140Z"
}))]
struct SentItem {
    /// The message's identifier.
    #[serde(serialize_with = "written")]
    #[schema(value_type = String)]
    message_id: MessageId,
    /// The author's address.
    #[serde(serialize_with = "shown")]
    #[schema(value_type = String)]
    from: EmailAddress,
    /// The To recipients' addresses.
    #[serde(serialize_with = "all_shown")]
    #[schema(value_type = Vec<String>)]
    to: Vec<EmailAddress>,
    /// The subject.
    subject: String,
    /// What became of it.
    #[schema(value_type = MessageState)]
    status: &'static str,
    /// When the message was stored.
    created_at: Moment,
    /// When it was handed to the mail server; null when that failed.
    #[schema(required)]
    submitted_at: Option<Moment>,
}

impl From<SentSummary> for SentItem {
    fn from(message: SentSummary) -> Self {
        Self {
            message_id: message.message_id,
            from: message.from,
            to: message.to,
            subject: message.subject,
            status: message.status.as_str(),
            created_at: message.created_at.into(),
            submitted_at: message.submitted_at.map(Moment),
        }
    }
}

fn all_shown<S: Serializer>(addresses: &[EmailAddress], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(addresses.iter().map(EmailAddress::shown))
}

/// A message's state.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the names in the document; they are read as `mailapi_model::MessageStatus`")]
enum MessageStatusName {
    /// Stored, and not handed over yet.
    Pending,
    /// Handed over; somebody is still to get it.
    Submitted,
    /// Delivered to everybody.
    Sent,
    /// Delivered to some, and given back for the rest.
    Partial,
    /// Delivered to nobody.
    Bounced,
    /// Never taken over by the mail server.
    Failed,
}

documented_errors!(Errors, documented, [ValidationError]);

/// List sent messages
///
/// Messages that were sent through this interface, newest first. An admin sees all; others see what their mailbox
/// sent.
#[utoipa::path(get, path = "/mail/sent", tag = "mail", operation_id = "list_sent_messages",
    params(
        ("status" = inline(Option<MessageStatusName>), Query, description = "Only messages in this state.", example = "bounced"),
        ("from" = Option<String>, Query, format = IdnEmail, description = "Only messages from this address."),
        ("recipient" = Option<String>, Query, format = IdnEmail, description = "Only messages with this address in to, cc or bcc."),
        ("start_date" = inline(Option<DateOrTime>), Query, description = "Only messages stored at this time or later.",
            example = "2026-11-20"),
        ("end_date" = inline(Option<EndDateOrTime>), Query,
            description = "Only messages stored before this time, or up to the end of this day."),
        PageParameters,
    ),
    responses((status = 200, description = "A page of messages.", body = SentListed), Errors))]
pub(crate) async fn list_sent(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    mut query: Query,
) -> Result<Json<SentListed>, ApiError> {
    let wanted = SentQuery {
        status: query.parsed("status"),
        from: query.parsed("from"),
        recipient: query.parsed("recipient"),
        start: query.start_date(),
        end: query.end_date(),
    };
    let page = query.page();
    query.check()?;
    let listed = state.service().list_sent(&caller, wanted, page).await?;
    Ok(Json(SentListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        messages: listed.items.into_iter().map(Into::into).collect(),
    }))
}

impl From<ListSentError> for ApiError {
    fn from(error: ListSentError) -> Self {
        match error {
            ListSentError::Unavailable(error) => error.into(),
        }
    }
}
