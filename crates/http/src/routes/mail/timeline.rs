//! `GET /mail/{message_id}/timeline`.

use axum::extract::State;
use mailapi_model::MessageId;
use mailapi_service::events::{EventCursor, EventPage};
use utoipa::ToSchema;

use crate::answer::WrittenJson;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::path::PathParameters;
use crate::query::{Query, query_parameters};
use crate::routes::events::{Event, EventLimit, write_events};
use crate::state::HttpState;

query_parameters! {
    /// Page of the timeline.
    pub(crate) struct TimelinePage {
        /// Only events after this position: the `cursor` of an earlier response. All events if absent.
        after: Option<EventCursor>;
        /// Maximum number of events to return. Values above 1000 are reduced to 1000.
        limit: Option<EventLimit>;
    }
}

/// Events of one message.
#[derive(ToSchema)]
#[schema(as = MessageTimeline)]
#[expect(dead_code, reason = "describes the response, which embeds events as they are stored")]
pub(crate) struct Timeline {
    /// Always true.
    success: bool,
    /// Message identifier.
    #[schema(format = "uuid")]
    message_id: String,
    /// Events, oldest first.
    events: Vec<Event>,
    /// Position after these events, for `after` of the next request.
    #[schema(example = "4711-7qz1r3wd")]
    cursor: String,
    /// Whether the message may have more events.
    has_more: bool,
}

documented_errors!(Errors, documented, [MessageNotFound, ValidationError]);

/// Get a message's events
///
/// Returns the events of one message, oldest first, as far as they are kept. They are visible to callers that may see
/// the status of the message, and to callers with `view_stats` on the sender's domain.
#[utoipa::path(get, path = "/mail/{message_id}/timeline", tag = "mail", operation_id = "get_message_timeline",
    params(("message_id" = String, Path, format = "uuid", description = "Message identifier returned by `POST /mail/send`.",
        example = "67e55044-10b1-426f-9247-bb680e5fe0c8"), TimelinePage),
    responses((status = 200, description = "The events of the message.", body = Timeline), Errors))]
pub(crate) async fn timeline(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<TimelinePage>,
) -> Result<WrittenJson, ApiError> {
    let TimelinePage { after, limit } = query.read()?;
    let id = path.parsed("message_id").ok_or(ErrorCode::MessageNotFound)?;
    let (after, limit) = (after.unwrap_or_default(), limit.unwrap_or(EventLimit::DEFAULT));
    let page = state.service().timeline(&caller, id, after, limit).await?;
    Ok(WrittenJson(written(id, &page).into()))
}

fn written(id: MessageId, page: &EventPage) -> Vec<u8> {
    let mut json = format!("{{\"success\":true,\"message_id\":\"{id}\",\"events\":").into_bytes();
    write_events(&mut json, &page.events);
    let rest = format!(",\"cursor\":\"{}\",\"has_more\":{}}}", page.cursor, page.has_more);
    json.extend_from_slice(rest.as_bytes());
    json
}
