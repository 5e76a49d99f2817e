//! Receives request bodies within the limits of size and time.

use std::io;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use mailapi_service::Unavailable;
use tokio::task::JoinError;

use crate::byte_budget::{BytePermit, Full, Share};
use crate::client_address::caller;
use crate::error::{ApiError, ErrorCode};
use crate::state::HttpState;

/// Rejects bodies that are not declared as JSON.
pub(crate) fn check_media_type(headers: &HeaderMap) -> Result<(), ErrorCode> {
    if is_declared(headers, "application/json") { Ok(()) } else { Err(ErrorCode::UnsupportedMediaType) }
}

/// Returns whether a body is declared as this media type, and not compressed.
pub(crate) fn is_declared(headers: &HeaderMap, media_type: &str) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let essence = text(header::CONTENT_TYPE).and_then(|text| text.split(';').next()).map(str::trim);
    let is_plain = !headers.contains_key(header::CONTENT_ENCODING)
        || text(header::CONTENT_ENCODING).is_some_and(|coding| coding.eq_ignore_ascii_case("identity"));
    is_plain && essence.is_some_and(|essence| essence.eq_ignore_ascii_case(media_type))
}

/// `Retry-After` if there is no room for a body or a response.
pub(crate) const RETRY_WHEN_FULL: Duration = Duration::from_secs(10);

/// Why a body was not received completely.
pub(crate) enum Incomplete {
    /// It exceeds this many bytes.
    TooLarge(usize),
    TooSlow,
    Broken,
    /// Other bodies use all room, or the caller's share is used up.
    Full,
    /// It has more than this many bytes outside of long strings.
    TooManyValues(usize),
    /// Writing its temporary file failed.
    Room(io::Error),
    /// The receiving thread panicked.
    Unforeseen(JoinError),
}

impl From<Incomplete> for ApiError {
    fn from(why: Incomplete) -> Self {
        match why {
            Incomplete::TooLarge(limit) => {
                Self::new(ErrorCode::PayloadTooLarge, format!("The request is larger than {limit} bytes."))
            }
            Incomplete::TooSlow => ErrorCode::RequestTimeout.into(),
            Incomplete::Broken => Self::new(ErrorCode::InvalidJson, "The body ended before its announced length."),
            Incomplete::Full => Full.into(),
            Incomplete::TooManyValues(limit) => Self::new(
                ErrorCode::PayloadTooLarge,
                format!("The request has too many values: more than {limit} bytes outside of long strings."),
            ),
            Incomplete::Room(error) => Unavailable::Room(error).into(),
            Incomplete::Unforeseen(error) => Self::internal(error),
        }
    }
}

/// Receives the whole body.
pub(crate) async fn read(request: Request, state: &HttpState, limit: usize) -> Result<Bytes, ApiError> {
    let all = async {
        let mut bytes = BytesMut::new();
        Arriving::new(request, state, limit)?.fill(&mut bytes, limit).await?;
        Ok(bytes.freeze())
    };
    in_time(state, all).await
}

/// Awaits `taking_in` within the body time-out.
pub(crate) async fn in_time<T>(
    state: &HttpState,
    taking_in: impl Future<Output = Result<T, Incomplete>>,
) -> Result<T, ApiError> {
    let taken = tokio::time::timeout(state.settings().body_timeout, taking_in).await;
    Ok(taken.unwrap_or(Err(Incomplete::TooSlow))?)
}

/// A body that is being received.
pub(crate) struct Arriving {
    body: Limited<Body>,
    limit: usize,
    pause: Duration,
    /// Memory held for the body.
    memory: BytePermit,
    /// Received bytes that stay in memory.
    kept: usize,
}

/// Memory that every body may use uncounted, so that small requests never compete with large ones.
const FREE_BODY_MEMORY: usize = 16 * 1024;

impl Arriving {
    /// The body of `request`, unless its announced length exceeds `limit`.
    pub(crate) fn new(request: Request, state: &HttpState, limit: usize) -> Result<Self, Incomplete> {
        let memory = state.memory().hold(Share::of(caller(request.extensions())));
        let body = request.into_body();
        if body.size_hint().lower() > limit as u64 {
            return Err(Incomplete::TooLarge(limit));
        }
        let pause = state.settings().body_pause;
        Ok(Self { body: Limited::new(body, limit), limit, pause, memory, kept: 0 })
    }

    /// Sets how many received bytes stay in memory.
    pub(crate) const fn keep(&mut self, bytes: usize) {
        self.kept = bytes;
    }

    /// The held memory, with room for `more` bytes.
    pub(crate) fn into_memory(mut self, more: usize) -> Result<BytePermit, Incomplete> {
        take_memory(&mut self.memory, self.kept.saturating_add(more))?;
        Ok(self.memory)
    }

    /// Receives into `bytes` until they exceed `max` or the body ends; returns whether it has ended.
    pub(crate) async fn fill(&mut self, bytes: &mut BytesMut, max: usize) -> Result<bool, Incomplete> {
        while bytes.len() <= max {
            let frame = tokio::time::timeout(self.pause, self.body.frame()).await.map_err(|_| Incomplete::TooSlow)?;
            let Some(frame) = frame else { return Ok(true) };
            let over = |error: &axum::BoxError| error.is::<LengthLimitError>();
            let why = |error| if over(&error) { Incomplete::TooLarge(self.limit) } else { Incomplete::Broken };
            if let Ok(data) = frame.map_err(why)?.into_data() {
                take_memory(&mut self.memory, self.kept + bytes.len() + data.len())?;
                bytes.extend_from_slice(&data);
            }
        }
        Ok(false)
    }
}

/// Takes memory for a body; a small one takes none.
pub(crate) fn take_memory(memory: &mut BytePermit, bytes: usize) -> Result<(), Incomplete> {
    memory.resize(if bytes > FREE_BODY_MEMORY { bytes } else { 0 }).map_err(|Full| Incomplete::Full)
}
