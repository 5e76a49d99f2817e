//! Answers as JSON.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::ApiError;

/// Octets that most answers fit into.
const USUAL_LENGTH: usize = 1024;

/// An answer as JSON. It is written into plain memory: a list is some hundred small writes, each of which the buffer of
/// `axum::Json` takes more time for.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut octets = Vec::with_capacity(USUAL_LENGTH);
        match serde_json::to_writer(&mut octets, &self.0) {
            Ok(()) => {
                let content_type = HeaderValue::from_static("application/json");
                ([(header::CONTENT_TYPE, content_type)], Body::from(octets)).into_response()
            }
            Err(error) => ApiError::internal(error).into_response(),
        }
    }
}
