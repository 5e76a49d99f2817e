//! The layer around all handlers.
//!
//! One layer instead of one for each step, because every layer costs allocations for each request.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tower::Service;
use tracing::Instrument;

use crate::answer;
use crate::byte_budget::Share;
use crate::client_address::Arrival;
use crate::discard::UnreadBody;
use crate::error::{ApiError, ErrorCode};
use crate::guard;
use crate::operations::Operations;
use crate::request_id::Named;
use crate::state::HttpState;

/// From the outside in: request id and access log, metrics, default and rate-limit headers, discarding unread bodies, room for a
/// large response, and catching panics.
#[derive(Clone)]
pub(crate) struct RequestLayer<S> {
    state: HttpState,
    operations: Arc<Operations>,
    inner: S,
}

impl<S> RequestLayer<S> {
    /// Wraps `inner`.
    pub(crate) const fn new(state: HttpState, operations: Arc<Operations>, inner: S) -> Self {
        Self { state, operations, inner }
    }
}

impl<S> Service<Request> for RequestLayer<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + Unpin + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let state = self.state.clone();
        let (operation, began) = (self.operations.of(&request), state.clock().steady());
        let (named, span) = Named::of(&request, &state);
        let arrival = request.extensions_mut().get_or_insert_default::<Arrival>();
        let Arrival { is_ambiguous, is_encrypted, peer, .. } = *arrival;
        let noted = Arc::clone(&arrival.noted);
        // HTTP/2 has no such header, and another request is another stream.
        let names_close = request.version() <= Version::HTTP_11;
        let (request, unread) = UnreadBody::of(request);
        let mut handled = (!is_ambiguous).then(|| AssertUnwindSafe(self.inner.call(request)).catch_unwind());
        let answering = async move {
            // Awaited by reference: a moved value would take its space in this future twice.
            let response = match &mut handled {
                Some(handled) => match handled.await {
                    Ok(Ok(response)) => response,
                    Ok(Err(never)) => match never {},
                    Err(panic) => guard::panicked(panic),
                },
                None => ApiError::from(ErrorCode::BadRequest).into_response(),
            };
            drop(handled);
            let mut response = answer::held(response, || state.answers().hold(Share::of(noted.caller.get())));
            let is_reusable = unread.discard(response.status(), &state, peer).await;
            if names_close && !is_reusable {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            guard::write_headers(response.headers_mut(), is_encrypted);
            noted.limit.write_to(response.headers_mut());
            operation.count(response.status().as_u16(), state.clock().steady().saturating_sub(began));
            named.answered(&mut response, state.clock().now(), state.settings().access_log);
            Ok(response)
        };
        Box::pin(answering.instrument(span))
    }
}
