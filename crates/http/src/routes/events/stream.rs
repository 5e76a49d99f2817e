//! `GET /events/stream`: Server-Sent Events (WHATWG HTML section 9.2).

use std::convert::Infallible;
use std::io::Write as _;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use mailapi_service::events::{After, EventPage, EventQuery, EventStream};
use tokio::time::{Instant, sleep_until};

use super::EventFilters;
use super::streams::OpenStream;
use crate::caller::LastingCaller;
use crate::closing::Closing;
use crate::error::{ApiError, documented_errors};
use crate::query::Query;
use crate::request_body::Text;
use crate::shape::EventPosition;
use crate::state::HttpState;

/// Maximum number of events that are logged while the client reads none. A client that resumes reads them from the
/// database in pages, which costs less than keeping up with one that is too slow.
const MOST_BEHIND: u64 = 256;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Makes nginx forward each piece at once.
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// Stream events
///
/// Sends events as they are logged, as Server-Sent Events: `id` is the cursor, `event` the type, and `data` the event as
/// in `GET /events`. A comment follows every 15 seconds without events. The event `truncated` means that events between
/// the requested position and the next event are no longer kept, or that the position is of another log.
///
/// The stream ends when the token expires or is revoked, and when the server shuts down or its database fails. It also
/// ends when more than 256 events were logged while the client read none. Clients then reconnect with the header
/// `Last-Event-ID` and miss no event. A token may have 5 open streams; another one gets `RATE_LIMIT_EXCEEDED`.
#[utoipa::path(get, path = "/events/stream", tag = "events", operation_id = "stream_events",
    params(EventFilters, ("Last-Event-ID" = Option<String>, Header, min_length = 1,
        pattern = r"^(start|now|0|[1-9][0-9]{0,17}(-[0-9a-hjkmnp-tv-z]{8})?)$",
        description = "The last `id` that the client received. It replaces `after`.")),
    responses((status = 200, description = "A stream of events.", body = String, content_type = "text/event-stream"),
        Errors))]
pub(crate) async fn stream(
    State(state): State<HttpState>,
    caller: LastingCaller,
    closing: Closing,
    headers: HeaderMap,
    query: Query<EventFilters>,
) -> Result<Response, ApiError> {
    let query = query.read()?.into_query();
    let after = last_event_id(&headers)?.unwrap_or(query.after);
    let open = state.event_streams().open(&caller.caller)?;
    let query = EventQuery { after, ..query };
    let events = state.service().event_stream(&caller.caller, query).await?;
    let streaming = Streaming {
        greeted: false,
        behind: events.behind(),
        comment_at: Instant::now() + state.settings().comment_interval,
        state,
        caller,
        closing,
        events,
        _open: open,
    };
    // Boxed: the future of each step holds it.
    let pieces = stream::unfold(Box::new(streaming), |mut streaming| async {
        let piece = streaming.next().await?;
        Some((Ok::<_, Infallible>(piece), streaming))
    });
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(([content_type, UNBUFFERED], Body::from_stream(pieces)).into_response())
}

/// The position where a client resumes; an empty header means none.
fn last_event_id(headers: &HeaderMap) -> Result<Option<After>, ApiError> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().to_owned();
    Ok(Some(EventPosition::parse("Last-Event-ID", text)?))
}

/// An open stream.
struct Streaming {
    state: HttpState,
    caller: LastingCaller,
    closing: Closing,
    events: EventStream,
    /// Whether the first piece was sent.
    greeted: bool,
    /// How far the stream was behind the log when the client took the last piece.
    behind: u64,
    /// When the next comment is due.
    comment_at: Instant,
    _open: OpenStream,
}

impl Streaming {
    /// Returns the next piece as soon as there is one; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.greeted {
            self.greeted = true;
            // Shows at once that the stream is open, and where a client resumes that receives no event.
            return Some(self.comment());
        }
        if self.events.behind() > self.behind + MOST_BEHIND {
            tracing::debug!("event stream closed: the client reads too slowly");
            return None;
        }
        let piece = loop {
            tokio::select! {
                biased;
                () = self.closing.begun() => return None,
                page = self.events.next() => {
                    let page = page.inspect_err(|error| tracing::warn!(%error, "event stream closed")).ok()?;
                    let page = self.allowed(page).await?;
                    if !page.events.is_empty() || page.truncated {
                        break written(&page);
                    }
                }
                () = sleep_until(self.comment_at) => {
                    self.check().await?;
                    break self.comment();
                }
            }
        };
        self.behind = self.events.behind();
        self.comment_at = Instant::now() + self.state.settings().comment_interval;
        Some(piece)
    }

    /// Keeps the events that the caller may see now; `None` if the token has ended.
    async fn allowed(&mut self, mut page: EventPage) -> Option<EventPage> {
        if self.check().await? {
            page.events.retain(|event| self.events.includes(event));
        }
        Some(page)
    }

    /// Checks the token again, and returns whether its rights changed; `None` if it has ended.
    async fn check(&mut self) -> Option<bool> {
        let has_other_rights = self.caller.check(&self.state).await.ok()?;
        if has_other_rights {
            self.events.renew(&self.caller.caller).await.ok()?;
        }
        Some(has_other_rights)
    }

    /// Returns a comment with the position, so that a client resumes after events that its filters excluded.
    fn comment(&self) -> Bytes {
        format!(": waiting\nid: {}\n\n", self.events.cursor()).into()
    }
}

fn written(page: &EventPage) -> Bytes {
    const USUAL_REST: usize = 64;
    let bytes = page.events.iter().map(|event| event.body.len() + USUAL_REST).sum::<usize>();
    let mut text = Vec::with_capacity(bytes + USUAL_REST);
    if page.truncated {
        text.extend_from_slice(b"event: truncated\ndata: {}\n\n");
    }
    for event in &page.events {
        // A body is one line: JSON escapes line ends. Writing into memory cannot fail.
        let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", event.cursor(), event.event_type, event.body);
    }
    text.into()
}
