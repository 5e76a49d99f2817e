//! One name for each request, in the answer and in every line of the log about it.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use mailapi_model::{RequestId, Timestamp};
use tracing::Span;

use crate::state::HttpState;

const NAME: HeaderName = HeaderName::from_static("x-request-id");

/// A request on its way.
pub(crate) struct Named {
    id: RequestId,
    span: Span,
    began: Timestamp,
}

impl Named {
    /// Names the request: as its sender does, when that is sane.
    pub(crate) fn of(request: &Request, state: &HttpState) -> Self {
        let began = state.clock().now();
        let own = request.headers().get(&NAME).and_then(|value| value.to_str().ok()).and_then(RequestId::from_caller);
        let id = own.unwrap_or_else(|| RequestId::random(began, state.entropy()));
        // The path's pattern, not the path itself: that holds addresses of people.
        let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str);
        let span = tracing::info_span!("request", id = id.as_str(), method = request.method().as_str(), route);
        Self { id, span, began }
    }

    /// What every line of the log about it stands in.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Logs it once, when it was answered, and puts the name on the answer.
    pub(crate) fn answered(self, response: &mut Response, now: Timestamp) {
        let millis = u64::try_from(now.since(self.began).as_millis()).unwrap_or(u64::MAX);
        let status = response.status().as_u16();
        self.span.in_scope(|| tracing::info!(status, millis, "answered"));
        if let Ok(value) = HeaderValue::from_str(self.id.as_str()) {
            response.headers_mut().insert(NAME, value);
        }
    }
}
