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
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

use crate::settings::HttpSettings;

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

/// What a request's handler may leave of its body.
pub(crate) struct UnreadBody(Option<Shared>);

impl UnreadBody {
    /// Looks after the body of a request from now on. That of a client which waits for leave to send (RFC 9110 section
    /// 10.1.1) needs nobody.
    pub(crate) fn of(request: Request) -> (Request, Self) {
        if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
            return (request, Self(None));
        }
        let (parts, body) = request.into_parts();
        let body = Shared(Arc::new(Mutex::new(body)));
        (Request::from_parts(parts, Body::new(body.clone())), Self(Some(body)))
    }

    /// Reads what was left of it when the request was answered with this status.
    pub(crate) async fn discard(self, answered: StatusCode, settings: &HttpSettings) {
        let Some(body) = self.0 else { return };
        if answered == StatusCode::REQUEST_TIMEOUT {
            // It has been waited for already.
            return;
        }
        if HttpBody::size_hint(&body).lower() > settings.discard_bytes as u64 {
            // The connection is closed on it anyway, so none of it is taken in.
            return;
        }
        // Whether it came to its end or not, the answer goes out.
        let _ = tokio::time::timeout(settings.discard_timeout, discard(body, settings.discard_bytes)).await;
    }
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
