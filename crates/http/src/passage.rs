//! What every request passes on its way to its handler and back.
//!
//! One layer and not one for each step: a layer costs every request some allocations, whatever it does.

use std::panic::AssertUnwindSafe;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use tracing::Instrument;

use crate::limits::RateLimitNote;
use crate::request_id::Named;
use crate::state::HttpState;
use crate::{discard, guard};

/// From the outside in: the request's name and its line in the log, the headers of every answer with the state of the
/// rate limit, what is left of its body, and the catcher of panics.
pub(crate) async fn pass(State(state): State<HttpState>, mut request: Request, next: Next) -> Response {
    let named = Named::of(&request, &state);
    let limit = RateLimitNote::default();
    request.extensions_mut().insert(limit.clone());
    let handle = async |request| {
        let handled = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        handled.unwrap_or_else(guard::panicked)
    };
    let answering = discard::with_unread_body(&state, request, handle).instrument(named.span());
    let mut response = answering.await;
    guard::write_headers(response.headers_mut());
    limit.write_to(response.headers_mut());
    named.answered(&mut response, state.clock().now());
    response
}
