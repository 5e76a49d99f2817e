//! Discards unread bodies.
//!
//! A client sends its whole body before it reads the response. If the server rejected a body early (no token, too
//! large) and closed the connection, the client would see a reset instead of the reason. The server therefore receives
//! and discards the rest of the body before it responds, within limits of size and time. If a rest remains, the connection
//! cannot carry another request, and the response says so (RFC 9112 section 9.6).
//!
//! Such a body needs no token, and keeps the buffers of its connection for seconds. Few connections discard at a time
//! therefore, and each client has a share of them; the others close at once.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use mailapi_model::Connections;

use crate::client_address::network_of;
use crate::state::HttpState;

/// Maximum number of bodies that are discarded at a time. Each takes up to 64 KiB of buffers.
const MOST_AT_ONCE: usize = 512;
/// Of these, of one client. Also a browser that uploads several files at once needs fewer.
const MOST_OF_CLIENT: usize = 64;

/// Counts the bodies that are being discarded.
pub(crate) fn discards() -> Connections {
    Connections::new(MOST_AT_ONCE, MOST_OF_CLIENT)
}

/// A body that can still be read after the handler dropped it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Opened>>);

struct Opened {
    body: Body,
    /// Reading the body asks a client that waits for 100 to send it.
    was_read: bool,
    /// Whether the handler has read it all.
    has_ended: bool,
}

impl Shared {
    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut opened = self.opened();
        opened.was_read = true;
        let frame = Pin::new(&mut opened.body).poll_frame(context);
        opened.has_ended |= matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        let opened = self.opened();
        opened.has_ended || opened.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.opened().body.size_hint()
    }
}

/// The part of a body that the handler leaves unread.
pub(crate) struct UnreadBody {
    /// `None` if the request has no body.
    body: Option<Shared>,
    /// Whether the client sends the body only after 100 (RFC 9110 section 10.1.1).
    waits: bool,
}

impl UnreadBody {
    /// Shares the body of a request with its handler.
    pub(crate) fn of(request: Request) -> (Request, Self) {
        let waits = request.headers().contains_key(header::EXPECT);
        if request.body().is_end_stream() {
            return (request, Self { body: None, waits });
        }
        let (parts, body) = request.into_parts();
        let body = Shared(Arc::new(Mutex::new(Opened { body, was_read: false, has_ended: false })));
        (Request::from_parts(parts, Body::new(body.clone())), Self { body: Some(body), waits })
    }

    /// Discards the rest of the body after a response with this status. Returns whether the connection can carry another
    /// request. `peer` is `None` without a connection (in tests).
    pub(crate) async fn discard(self, answered: StatusCode, state: &HttpState, peer: Option<SocketAddr>) -> bool {
        let Some(body) = self.body else { return true };
        let settings = state.settings();
        if HttpBody::is_end_stream(&body) {
            return true;
        }
        // A client that still waits sends nothing to discard, or the whole body in spite of the response.
        let is_not_sent = self.waits && !body.opened().was_read;
        let is_too_long = HttpBody::size_hint(&body).lower() > settings.discard_bytes as u64;
        // After a time-out the rest would time out again.
        if is_not_sent || is_too_long || answered == StatusCode::REQUEST_TIMEOUT {
            return false;
        }
        let client = peer.and_then(|peer| network_of(peer, &settings.trusted_proxies));
        let Some(_counted) = state.discards().count(client) else { return false };
        let discarded = tokio::time::timeout(settings.discard_timeout, discard(body, settings.discard_bytes)).await;
        discarded.unwrap_or(false)
    }
}

/// Returns whether the body has ended.
async fn discard(mut body: Shared, most: usize) -> bool {
    let mut bytes = 0;
    while bytes <= most {
        match body.frame().await {
            Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) => return false,
            None => return true,
        }
    }
    false
}
