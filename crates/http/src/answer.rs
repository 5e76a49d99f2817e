//! Answers as JSON.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use crate::error::ApiError;

/// Octets that most answers fit into.
const USUAL_LENGTH: usize = 1024;
/// Headers that every answer gets on its way out, and a few more: a map that grows is made anew.
const USUAL_HEADERS: usize = 10;

/// An answer as JSON. It is written into plain memory: a list is some hundred small writes, each of which the buffer of
/// `axum::Json` takes more time for.
pub(crate) struct Json<T>(pub(crate) T);

/// An answer that was written before.
pub(crate) struct WrittenJson(pub(crate) Bytes);

/// Writes an answer.
pub(crate) fn written(answer: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    let mut octets = Vec::with_capacity(USUAL_LENGTH);
    serde_json::to_writer(&mut octets, answer).map_err(ApiError::internal)?;
    Ok(octets)
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match written(&self.0) {
            Ok(octets) => WrittenJson(octets.into()).into_response(),
            Err(error) => error.into_response(),
        }
    }
}

impl IntoResponse for WrittenJson {
    fn into_response(self) -> Response {
        let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut response = Response::new(Body::from(self.0));
        *response.headers_mut() = headers;
        response
    }
}
