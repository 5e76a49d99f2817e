//! One name for each request, in the answer and in every line of the log about it.

use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use mailapi_model::RequestId;
use tracing::Instrument;

use crate::state::HttpState;

const NAME: &str = "x-request-id";

/// Names the request, logs it once when it was answered, and puts the name on the answer.
pub(crate) async fn name(State(state): State<HttpState>, request: Request, next: Next) -> Response {
    let own = request.headers().get(NAME).and_then(|value| value.to_str().ok()).and_then(RequestId::from_caller);
    let id = own.unwrap_or_else(|| RequestId::random(state.clock().now(), state.entropy()));
    // The path's pattern, not the path itself: that holds addresses of people.
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str);
    let span = tracing::info_span!("request", id = id.as_str(), method = %request.method(), route);
    let began = state.clock().now();
    let mut response = next.run(request).instrument(span.clone()).await;
    span.in_scope(|| log(response.status(), state.clock().now().since(began)));
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(NAME, value);
    }
    response
}

fn log(status: StatusCode, took: Duration) {
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(status = status.as_u16(), millis, "answered");
}
