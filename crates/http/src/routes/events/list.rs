//! `GET /events`.

use std::time::Duration;

use axum::extract::State;
use mailapi_model::Violations;
use mailapi_service::events::{After, EventPage, EventQuery};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::{Event, EventFilters, write_events};
use crate::answer::WrittenJson;
use crate::caller::LastingCaller;
use crate::closing::Closing;
use crate::error::{ApiError, documented_errors};
use crate::query::{Argument, Query, digits, query_parameters};
use crate::state::HttpState;

/// Maximum time that a request waits for an event. Proxies close requests without an answer after a minute.
const MAX_WAIT_SECONDS: u64 = 30;

/// `limit` of a list of events.
pub(crate) struct EventLimit;

impl EventLimit {
    pub(crate) const DEFAULT: usize = 100;
    const MAX: usize = 1000;
}

impl Argument for EventLimit {
    type Read = usize;

    fn schema() -> RefOr<Schema> {
        let limit = ObjectBuilder::new().schema_type(Type::Integer);
        limit.minimum(Some(1)).default(Some(Self::DEFAULT.into())).into()
    }

    fn parse(name: &str, text: String) -> Result<usize, Violations> {
        match digits(&text) {
            Some(limit) if limit > 0 => Ok(usize::try_from(limit).unwrap_or(Self::MAX).min(Self::MAX)),
            _ => Err(Violations::of(name, "must be a whole number, 1 or more")),
        }
    }
}

/// `wait` of a list of events.
pub(crate) struct EventWait;

impl Argument for EventWait {
    type Read = Duration;

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).into()
    }

    fn parse(name: &str, text: String) -> Result<Duration, Violations> {
        let seconds = digits(&text).ok_or_else(|| Violations::of(name, "must be a whole number, 0 or more"))?;
        Ok(Duration::from_secs(seconds.min(MAX_WAIT_SECONDS)))
    }
}

query_parameters! {
    /// Position, filters and page.
    pub(crate) struct ListEvents {
        /// Position and filters.
        filters: EventFilters;
        /// Maximum number of events to return. Values above 1000 are reduced to 1000.
        limit: Option<EventLimit>;
        /// Seconds to wait for an event if there is none. Values above 30 are reduced to 30.
        wait: Option<EventWait>;
    }
}

/// Events after a position.
#[derive(ToSchema)]
#[schema(as = EventsListed)]
#[expect(dead_code, reason = "describes the response, which embeds events as they are stored")]
pub(crate) struct EventsListed {
    /// Always true.
    success: bool,
    /// Events, oldest first. A page may be empty although `has_more` is true: one request examines at most 10,000
    /// events.
    events: Vec<Event>,
    /// Position after these events, for `after` of the next request.
    #[schema(example = "4711-7qz1r3wd")]
    cursor: String,
    /// Whether there are newer events, which the filters may exclude.
    has_more: bool,
    /// Whether events between `after` and the first of these are no longer kept, or `after` is of another log. The events
    /// then begin with the oldest one.
    truncated: bool,
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// List events
///
/// Returns events in the order of the log, oldest first. To miss no event, repeat the request with the `cursor` of the
/// response. With `wait`, the response comes with the next event, or without events after that time.
///
/// Callers see the `message.*` events of their own mailbox. `view_stats` on a domain adds its `message.*` except
/// `message.received`, and `view_mailbox` adds its `message.received`. Admins see all events.
#[utoipa::path(get, path = "/events", tag = "events", operation_id = "list_events",
    params(ListEvents),
    responses((status = 200, description = "Events after the position.", body = EventsListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    mut caller: LastingCaller,
    closing: Closing,
    query: Query<ListEvents>,
) -> Result<WrittenJson, ApiError> {
    let ListEvents { filters, limit, wait } = query.read()?;
    let (query, limit) = (filters.into_query(), limit.unwrap_or(EventLimit::DEFAULT));
    let page = state.service().list_events(&caller.caller, &query, limit, Duration::ZERO).await?;
    let wait = wait.unwrap_or_default();
    let page = if page.is_answer() || wait.is_zero() {
        page
    } else {
        let query = EventQuery { after: After::Cursor(page.cursor), ..query };
        wait_for_events(&state, &mut caller, closing, &query, (limit, wait)).await?
    };
    Ok(WrittenJson(written(&page).into()))
}

/// Waits for events, until the time is over or the server shuts down.
async fn wait_for_events(
    state: &HttpState,
    caller: &mut LastingCaller,
    mut closing: Closing,
    query: &EventQuery,
    (limit, wait): (usize, Duration),
) -> Result<EventPage, ApiError> {
    let service = state.service();
    let page = tokio::select! {
        page = service.list_events(&caller.caller, query, limit, wait) => page?,
        () = closing.begun() => service.list_events(&caller.caller, query, limit, Duration::ZERO).await?,
    };
    // The token may have ended in the meantime, or lost a right.
    let has_other_rights = caller.check(state).await?;
    if has_other_rights {
        return Ok(service.list_events(&caller.caller, query, limit, Duration::ZERO).await?);
    }
    Ok(page)
}

fn written(page: &EventPage) -> Vec<u8> {
    const USUAL_REST: usize = 128;
    let bytes = page.events.iter().map(|event| event.body.len() + 1).sum::<usize>();
    let mut json = Vec::with_capacity(bytes + USUAL_REST);
    json.extend_from_slice(b"{\"success\":true,\"events\":");
    write_events(&mut json, &page.events);
    let EventPage { cursor, has_more, truncated, .. } = page;
    let rest = format!(",\"cursor\":\"{cursor}\",\"has_more\":{has_more},\"truncated\":{truncated}}}");
    json.extend_from_slice(rest.as_bytes());
    json
}
