//! `GET /mail/sent`.

use axum::extract::State;
use mailapi_model::{EmailAddress, MessageId, SentSummary};
use mailapi_service::mail::{ListSentError, SentQuery};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{EndDate, PageParameters, Query, StartDate, query_parameters};
use crate::shape::{MessageState, Moment, shown, written};
use crate::state::HttpState;

/// A page of sent messages.
#[derive(Serialize, ToSchema)]
pub(crate) struct SentListed {
    /// Always true.
    success: bool,
    /// Total number of messages.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Messages, newest first.
    messages: Vec<SentItem>,
}

/// A sent message in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = SentMessage, example = json!({
    "message_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "from": "alice@example.test", "to": ["bob@example.test"],
    "subject": "The minutes", "status": "sent", "created_at": "2026-11-20T10:15:30.123Z",
    "submitted_at": "2026-11-20T10:15:30.140Z"
}))]
struct SentItem {
    /// Message identifier.
    #[serde(serialize_with = "written")]
    #[schema(value_type = String, format = "uuid")]
    message_id: MessageId,
    /// Sender address.
    #[serde(serialize_with = "shown")]
    #[schema(value_type = String)]
    from: EmailAddress,
    /// Addresses of the `to` recipients.
    #[serde(serialize_with = "all_shown")]
    #[schema(value_type = Vec<String>)]
    to: Vec<EmailAddress>,
    /// Subject.
    subject: String,
    /// Message status.
    #[schema(value_type = MessageState)]
    status: &'static str,
    /// Time when the message was stored.
    created_at: Moment,
    /// Time when the mail server accepted the message; null if it did not.
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

query_parameters! {
    /// Filters of the list.
    pub(crate) struct ListSent {
        /// Only messages with this status.
        status: Option<MessageState>;
        /// Only messages from this address.
        from: Option<EmailAddress>;
        /// Only messages with this address in `to`, `cc` or `bcc`.
        recipient: Option<EmailAddress>;
        /// Only messages stored at this time or later.
        start_date: Option<StartDate>;
        /// Only messages stored before this time, or up to the end of this date.
        end_date: Option<EndDate>;
        /// Page of the list.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [ValidationError]);

/// List sent messages
///
/// Returns the messages that were sent through this API, newest first. Admins see all messages; other callers see those
/// of their own mailbox.
#[utoipa::path(get, path = "/mail/sent", tag = "mail", operation_id = "list_sent_messages",
    params(ListSent),
    responses((status = 200, description = "A page of sent messages.", body = SentListed), Errors))]
pub(crate) async fn list_sent(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<ListSent>,
) -> Result<Json<SentListed>, ApiError> {
    let ListSent { status, from, recipient, start_date: start, end_date: end, page } = query.read()?;
    let wanted = SentQuery { status, from, recipient, start, end };
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
