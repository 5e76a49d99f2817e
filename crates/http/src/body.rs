//! The octets of a request's body, as long as they keep within the limits of size and time.

use std::io;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use mailapi_service::Unavailable;
use tokio::task::JoinError;

use crate::error::{ApiError, ErrorCode};
use crate::room::Full;
use crate::settings::HttpSettings;
use crate::state::HttpState;

/// Refuses what says that it is something else than JSON.
pub(crate) fn check_media_type(headers: &HeaderMap) -> Result<(), ErrorCode> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let essence = text(header::CONTENT_TYPE).and_then(|text| text.split(';').next()).map(str::trim);
    let is_json = essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    let is_plain = !headers.contains_key(header::CONTENT_ENCODING)
        || text(header::CONTENT_ENCODING).is_some_and(|coding| coding.eq_ignore_ascii_case("identity"));
    if is_json && is_plain { Ok(()) } else { Err(ErrorCode::UnsupportedMediaType) }
}

/// `Retry-After` for a body or an answer that found no room.
pub(crate) const RETRY_WHEN_FULL: Duration = Duration::from_secs(10);

/// Why a body was not taken in to its end.
pub(crate) enum Incomplete {
    /// It has more octets than this.
    TooLarge(usize),
    TooSlow,
    Broken,
    /// Other bodies take all the room, or the caller's own share of it is used up.
    Full,
    /// What came of it could not be kept.
    Room(io::Error),
    /// The thread that took it in broke off.
    Unforeseen(JoinError),
}

impl From<Incomplete> for ApiError {
    fn from(why: Incomplete) -> Self {
        match why {
            Incomplete::TooLarge(limit) => {
                Self::new(ErrorCode::PayloadTooLarge, format!("The request has more than {limit} octets."))
            }
            Incomplete::TooSlow => ErrorCode::RequestTimeout.into(),
            Incomplete::Broken => Self::new(ErrorCode::InvalidJson, "The body ended too early."),
            Incomplete::Full => Full.into(),
            Incomplete::Room(error) => Unavailable::Room(error).into(),
            Incomplete::Unforeseen(error) => Self::internal(error),
        }
    }
}

/// The whole body.
pub(crate) async fn read(request: Request, state: &HttpState, limit: usize) -> Result<Bytes, ApiError> {
    let all = async {
        let mut octets = BytesMut::new();
        Arriving::new(request, state.settings(), limit)?.fill(&mut octets, limit).await?;
        Ok(octets.freeze())
    };
    in_time(state, all).await
}

/// What `taking_in` makes of a body, unless that takes too long.
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
}

impl Arriving {
    /// The body of `request`, when it does not say that it has more octets than `limit`.
    pub(crate) fn new(request: Request, settings: &HttpSettings, limit: usize) -> Result<Self, Incomplete> {
        let body = request.into_body();
        if body.size_hint().lower() > limit as u64 {
            return Err(Incomplete::TooLarge(limit));
        }
        Ok(Self { body: Limited::new(body, limit), limit, pause: settings.body_pause })
    }

    /// Adds to `octets` until they are more than `max` or the body has ended; whether it has.
    pub(crate) async fn fill(&mut self, octets: &mut BytesMut, max: usize) -> Result<bool, Incomplete> {
        while octets.len() <= max {
            let frame = tokio::time::timeout(self.pause, self.body.frame()).await.map_err(|_| Incomplete::TooSlow)?;
            let Some(frame) = frame else { return Ok(true) };
            let over = |error: &axum::BoxError| error.is::<LengthLimitError>();
            let why = |error| if over(&error) { Incomplete::TooLarge(self.limit) } else { Incomplete::Broken };
            if let Ok(data) = frame.map_err(why)?.into_data() {
                octets.extend_from_slice(&data);
            }
        }
        Ok(false)
    }
}
