//! What holds for every answer, whatever made it.

use std::any::Any;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::caller::Anybody;
use crate::error::{ApiError, ErrorCode};

/// Keeps answers out of caches and browsers' guesses, where the handler has not said otherwise.
pub(crate) fn write_headers(headers: &mut HeaderMap) {
    // Answers hold mail and, once, tokens.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
}

/// The answer when a handler panicked. The log gets the message, under the request's id.
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    ApiError::internal(format!("panic: {message}")).into_response()
}

/// The answer for an unknown path. It counts against the client's address, so unknown paths are rate-limited like any
/// other.
pub(crate) async fn unknown_path(_: Anybody) -> ApiError {
    ErrorCode::NotFound.into()
}

/// The answer to a method that the path does not know; the router adds `Allow`.
pub(crate) async fn unknown_method(_: Anybody) -> ApiError {
    ErrorCode::MethodNotAllowed.into()
}
