//! `GET /events/{id}`.

use axum::extract::State;
use mailapi_service::events::EventError;
use utoipa::ToSchema;

use super::Event;
use crate::answer::WrittenJson;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

/// One event.
#[derive(ToSchema)]
#[schema(as = EventFound)]
#[expect(dead_code, reason = "describes the response, which embeds the event as it is stored")]
pub(crate) struct EventFound {
    /// Always true.
    success: bool,
    /// The event.
    event: Event,
}

documented_errors!(Errors, documented, [EventNotFound]);

/// Get an event
///
/// Callers that may not see the event get `EVENT_NOT_FOUND`.
#[utoipa::path(get, path = "/events/{id}", tag = "events", operation_id = "get_event",
    params(("id" = String, Path, pattern = r"^evt_[0-7][0-9a-hjkmnp-tv-z]{25}$", description = "Event identifier.",
        example = "evt_01m7w78fqwemea5qcy6jn7hx3x")),
    responses((status = 200, description = "The event.", body = EventFound), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<WrittenJson, ApiError> {
    let id = path.parsed("id").ok_or(ErrorCode::EventNotFound)?;
    let event = state.service().event(&caller, id).await?;
    let json = [b"{\"success\":true,\"event\":", event.body.as_bytes(), b"}"].concat();
    Ok(WrittenJson(json.into()))
}

impl From<EventError> for ApiError {
    fn from(error: EventError) -> Self {
        match error {
            EventError::NotFound => ErrorCode::EventNotFound.into(),
            EventError::Unavailable(error) => error.into(),
        }
    }
}
