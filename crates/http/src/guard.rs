//! Default headers, and responses for panics and unknown paths.

use std::any::Any;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::caller::Anybody;
use crate::error::{ApiError, ErrorCode};

/// A browser that was here once uses HTTPS for a year, also if it is given a link without it (RFC 6797). It ignores the
/// header after a warning about the certificate.
const HTTPS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Disables caching and content sniffing, unless the handler set other headers. Over TLS of this server, browsers stay
/// with TLS; a proxy decides that for itself.
pub(crate) fn write_headers(headers: &mut HeaderMap, is_encrypted: bool) {
    if is_encrypted {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HTTPS_ONLY);
    }
    // Responses contain mail and tokens.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
}

/// The response after a panic in a handler. Logs the panic message with the request id.
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    ApiError::internal(format!("panic: {message}")).into_response()
}

/// The response for an unknown path. It counts against the client's address, so unknown paths are rate-limited too.
pub(crate) async fn unknown_path(_: Anybody) -> ApiError {
    ErrorCode::NotFound.into()
}

/// The response for an unsupported method; the router adds `Allow`.
pub(crate) async fn unknown_method(_: Anybody) -> ApiError {
    ErrorCode::MethodNotAllowed.into()
}
