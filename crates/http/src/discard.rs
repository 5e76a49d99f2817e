//! Bodies that no operation reads.
//!
//! A client sends its whole body before it reads the answer. Were the connection closed on a body that is refused
//! early (no token, too large), the client would see a reset connection instead of the reason. So what is left of the
//! body is received and thrown away before the answer goes out, within limits of size and time.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

use crate::state::HttpState;

/// A body that can still be read after whoever got it has dropped it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Body>>);

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}

/// Has the request handled, and reads what that has left of the body. A client that waits for leave to send (RFC 9110
/// section 10.1.1) needs none of this.
pub(crate) async fn with_unread_body<F>(
    state: &HttpState,
    request: Request,
    handle: impl FnOnce(Request) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return handle(request).await;
    }
    let (parts, body) = request.into_parts();
    let body = Shared(Arc::new(Mutex::new(body)));
    let response = handle(Request::from_parts(parts, Body::new(body.clone()))).await;
    if response.status() == StatusCode::REQUEST_TIMEOUT {
        // It has been waited for already.
        return response;
    }
    let settings = state.settings();
    // Whether it came to its end or not, the answer goes out.
    let _ = tokio::time::timeout(settings.discard_timeout, discard(body, settings.max_request_bytes)).await;
    response
}

async fn discard(mut body: Shared, most: usize) {
    let mut octets = 0;
    while octets <= most {
        match body.frame().await {
            Some(Ok(frame)) => octets += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}
