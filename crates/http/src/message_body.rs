//! Request bodies that are a message (RFC 5322) instead of JSON.

use axum::extract::Request;
use bytes::BytesMut;
use mailapi_model::{Blob, Violations};

use crate::body::{Arriving, Incomplete, in_time, is_declared};
use crate::byte_budget::{BytePermit, Full, Share};
use crate::client_address::caller;
use crate::error::{ApiError, ErrorCode};
use crate::state::HttpState;

/// The media type (RFC 2046 section 5.2.1).
pub(crate) const MEDIA_TYPE: &str = "message/rfc822";

/// Bytes that are received before they go to the buffer, which keeps small messages in memory.
const PIECE: usize = 64 * 1024;

/// A received message. Its room counts for the caller until it is dropped.
pub(crate) struct MessageBody {
    pub(crate) message: Blob,
    _room: BytePermit,
}

impl MessageBody {
    /// Receives a message of the same size as requests that send.
    ///
    /// # Errors
    /// [`ErrorCode::UnsupportedMediaType`], [`ErrorCode::ValidationError`] for an empty body, and those of [`Incomplete`].
    pub(crate) async fn receive(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        if !is_declared(request.headers(), MEDIA_TYPE) {
            let message = format!("The body must be {MEDIA_TYPE} without a Content-Encoding.");
            return Err(ApiError::new(ErrorCode::UnsupportedMediaType, message));
        }
        let mut room = state.body_budget().hold(Share::of(caller(request.extensions())));
        let message = in_time(state, buffered(request, state, &mut room)).await?;
        if message.is_empty() {
            return Err(Violations::of("", "must be a message").into());
        }
        Ok(Self { message, _room: room })
    }
}

async fn buffered(request: Request, state: &HttpState, room: &mut BytePermit) -> Result<Blob, Incomplete> {
    let mut arriving = Arriving::new(request, state, state.settings().max_request_bytes)?;
    let mut writer = state.service().buffer().writer();
    let mut bytes = BytesMut::new();
    loop {
        let has_ended = arriving.fill(&mut bytes, PIECE).await?;
        room.grow(bytes.len()).map_err(|Full| Incomplete::Full)?;
        writer.push(&bytes).await.map_err(|error| Incomplete::Room(error.into()))?;
        bytes.clear();
        if has_ended {
            return writer.finish().map_err(|error| Incomplete::Room(error.into()));
        }
    }
}
