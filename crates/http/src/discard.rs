//! Discards unread bodies.
//!
//! A client sends its whole body before it reads the response. If the server rejected a body early (no token, too
//! large) and closed the connection, the client would see a reset instead of the reason. The server therefore receives
//! and discards the rest of the body before it responds, within limits of size and time.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

use crate::settings::HttpSettings;

/// A body that can still be read after the handler dropped it.
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

/// The part of a body that the handler leaves unread.
pub(crate) struct UnreadBody(Option<Shared>);

impl UnreadBody {
    /// Shares the body of a request with its handler. A client that waits for 100 (RFC 9110 section 10.1.1) has not
    /// sent its body, so nothing needs to be discarded.
    pub(crate) fn of(request: Request) -> (Request, Self) {
        if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
            return (request, Self(None));
        }
        let (parts, body) = request.into_parts();
        let body = Shared(Arc::new(Mutex::new(body)));
        (Request::from_parts(parts, Body::new(body.clone())), Self(Some(body)))
    }

    /// Discards the rest of the body after a response with this status.
    pub(crate) async fn discard(self, answered: StatusCode, settings: &HttpSettings) {
        let Some(body) = self.0 else { return };
        if answered == StatusCode::REQUEST_TIMEOUT {
            // The body already timed out once.
            return;
        }
        if HttpBody::size_hint(&body).lower() > settings.discard_bytes as u64 {
            // The connection is closed anyway.
            return;
        }
        // The response is sent even if the body did not end in time.
        let _ = tokio::time::timeout(settings.discard_timeout, discard(body, settings.discard_bytes)).await;
    }
}

async fn discard(mut body: Shared, most: usize) {
    let mut bytes = 0;
    while bytes <= most {
        match body.frame().await {
            Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}
