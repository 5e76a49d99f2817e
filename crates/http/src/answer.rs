//! JSON responses.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use crate::body::RETRY_WHEN_FULL;
use crate::byte_budget::{BytePermit, Full};
use crate::error::{ApiError, ErrorCode};

/// Initial buffer size; most responses fit.
const USUAL_LENGTH: usize = 1024;
/// Capacity for the headers of every response and a few more, because a growing map is reallocated.
const USUAL_HEADERS: usize = 10;

/// Responses above this many bytes take room until they are sent. Shorter ones fit into most connection buffers.
pub(crate) const LARGE: usize = 32 * 1024;

/// A JSON response. It is serialized into a `Vec`: a list takes hundreds of small writes, which are slower through the
/// buffer of `axum::Json`.
pub(crate) struct Json<T>(pub(crate) T);

/// An already serialized response.
pub(crate) struct WrittenJson(pub(crate) Bytes);

/// The bytes of a large response, for [`held`].
#[derive(Clone)]
struct Large(Bytes);

/// A response that keeps its room as long as its bytes are in memory.
struct HeldBytes {
    bytes: Bytes,
    _held: BytePermit,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Takes room for a large response, because its client may read slowly or never.
pub(crate) fn held(mut response: Response, hold: impl FnOnce() -> BytePermit) -> Response {
    let Some(Large(bytes)) = response.extensions_mut().remove() else { return response };
    let mut held = hold();
    match held.grow(bytes.len()) {
        Ok(()) => {
            *response.body_mut() = Body::from(Bytes::from_owner(HeldBytes { bytes, _held: held }));
            response
        }
        Err(full) => ApiError::from(full).into_response(),
    }
}

impl From<Full> for ApiError {
    fn from(Full: Full) -> Self {
        Self::later(ErrorCode::ServiceUnavailable, RETRY_WHEN_FULL)
    }
}

/// Serializes a response.
pub(crate) fn written(answer: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::with_capacity(USUAL_LENGTH);
    serde_json::to_writer(&mut bytes, answer).map_err(ApiError::internal)?;
    Ok(bytes)
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match written(&self.0) {
            Ok(bytes) => WrittenJson(bytes.into()).into_response(),
            Err(error) => error.into_response(),
        }
    }
}

impl IntoResponse for WrittenJson {
    fn into_response(self) -> Response {
        response(HeaderValue::from_static("application/json"), self.0)
    }
}

/// A response with these bytes, for which [`held`] takes room if they are many.
pub(crate) fn response(content_type: HeaderValue, bytes: Bytes) -> Response {
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    headers.insert(header::CONTENT_TYPE, content_type);
    let large = (bytes.len() > LARGE).then(|| Large(bytes.clone()));
    let mut response = Response::new(Body::from(bytes));
    *response.headers_mut() = headers;
    large.map(|large| response.extensions_mut().insert(large));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::byte_budget::{Share, byte_budget};

    fn answer(bytes: usize) -> Response {
        WrittenJson(vec![b' '; bytes].into()).into_response()
    }

    #[tokio::test]
    async fn a_large_answer_keeps_its_room_until_it_is_sent() {
        let budget = byte_budget(LARGE + 1);
        let hold = || budget.hold(Share::NoCaller);
        let first = held(answer(LARGE + 1), hold);
        assert_eq!(first.status(), 200);
        let second = held(answer(LARGE + 1), hold);
        assert_eq!((second.status().as_u16(), &second.headers()["retry-after"]), (503, &HeaderValue::from(10)));
        assert_eq!(held(answer(LARGE), hold).status(), 200, "a short answer needs no room");
        let bytes = first.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(held(answer(LARGE + 1), hold).status(), 503, "the bytes are still in memory");
        drop(bytes);
        assert_eq!(held(answer(LARGE + 1), hold).status(), 200);
    }
}
