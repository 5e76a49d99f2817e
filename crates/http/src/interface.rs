//! What another interface at the same listeners uses: the same request limits, addresses, bodies and room for responses.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use mailapi_model::TokenValue;
use mailapi_service::Caller;

use crate::answer;
use crate::body::take_memory;
use crate::byte_budget::{BytePermit, Full, Share};
use crate::caller::{Anybody, counted};
use crate::client_address::caller;
use crate::error::ApiError;
use crate::state::HttpState;

/// How a request uses its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenUse {
    /// A person or program acts: an idle session stays open.
    Act,
    /// A page refreshes itself: the session ends in time although its page is still open.
    Refresh,
}

/// Callers of another interface.
pub struct Authenticated;

impl Authenticated {
    /// Returns the caller with this token, and counts the request as one of the API.
    ///
    /// # Errors
    /// 401 for an unknown or ended token, 429 beyond a request limit.
    pub async fn by_token(
        parts: &Parts,
        state: &HttpState,
        token: &TokenValue,
        token_use: TokenUse,
    ) -> Result<Caller, ApiError> {
        let service = state.service();
        let known = match token_use {
            TokenUse::Act => service.authenticate(token).await,
            TokenUse::Refresh => service.authenticate_again(token).await,
        };
        counted(parts, state, known)
    }
}

/// Counts a request without a token, and returns the client's address.
///
/// # Errors
/// 429 beyond a request limit.
pub async fn count_client(parts: &mut Parts, state: &HttpState) -> Result<IpAddr, ApiError> {
    Anybody::from_request_parts(parts, state).await.map(|client| client.address)
}

/// Receives a whole body within the limits of size, time and memory.
///
/// # Errors
/// 413 above `limit` bytes, 408 for a slow body, 503 without room.
pub async fn read_body(request: Request, state: &HttpState, limit: usize) -> Result<Bytes, ApiError> {
    crate::body::read(request, state, limit).await
}

/// Room of a large body that another interface receives: that of a message which the API receives. It is held until this
/// value is dropped.
pub struct BodyRoom {
    all: Arc<Mutex<BytePermit>>,
    memory: BytePermit,
    kept: usize,
}

/// No room is left for a body.
#[derive(Debug, thiserror::Error)]
#[error("no room is left for the body")]
pub struct NoRoom;

impl From<NoRoom> for ApiError {
    fn from(NoRoom: NoRoom) -> Self {
        Full.into()
    }
}

impl BodyRoom {
    /// Takes no room yet. The caller of the request shares its room with all of its other requests.
    #[must_use]
    pub fn of(request: &Request, state: &HttpState) -> Self {
        let share = Share::of(caller(request.extensions()));
        let all = Arc::new(Mutex::new(state.body_budget().hold(share.clone())));
        Self { all, memory: state.memory().hold(share), kept: 0 }
    }

    /// The pieces of the body, which take room as they arrive, or [`NoRoom`]. A small body takes none, so that large ones
    /// cannot block it.
    pub fn pieces(
        &self,
        body: Body,
        state: &HttpState,
    ) -> impl Stream<Item = Result<Bytes, axum::BoxError>> + Send + 'static + use<> {
        let (all, free, mut arrived) = (Arc::clone(&self.all), state.settings().long_work_bytes, 0);
        body.into_data_stream().map(move |piece| {
            let piece = piece?;
            arrived += piece.len();
            if arrived > free {
                all.lock().unwrap_or_else(PoisonError::into_inner).grow_to(arrived).map_err(|Full| NoRoom)?;
            }
            Ok(piece)
        })
    }

    /// Takes room for bytes that stay in memory.
    ///
    /// # Errors
    /// 503 without room.
    pub fn keep(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.kept += bytes;
        Ok(take_memory(&mut self.memory, self.kept)?)
    }
}

/// A response of this media type. A large one takes room until it is sent.
#[must_use]
pub fn page(content_type: &'static str, bytes: Bytes) -> Response {
    answer::response(HeaderValue::from_static(content_type), bytes)
}
