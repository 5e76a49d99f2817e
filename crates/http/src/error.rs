//! Error responses.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use mailapi_model::{Denied, MessageId, Violation, Violations};
use mailapi_service::Unavailable;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as DocumentedResponse, ResponseBuilder};

use crate::answer::Json;
use crate::body::RETRY_WHEN_FULL;
pub(crate) use crate::error_codes::ErrorCode;
use crate::shape::ErrorCodeName;

/// An error.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiError)]
pub(crate) struct ErrorBody {
    /// Always false.
    success: bool,
    /// Error code, for programs.
    #[schema(value_type = ErrorCodeName, example = "VALIDATION_ERROR")]
    error: &'static str,
    /// Error message, for people.
    #[schema(value_type = String, example = "Validation failed; see details.")]
    message: Cow<'static, str>,
    /// With `VALIDATION_ERROR`: one entry for each invalid field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<ErrorDetail>,
    /// With `SEND_FAILED`: message identifier, for `/mail/{message_id}/status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    message_id: Option<String>,
    /// With `SEND_FAILED`: whether a retry may succeed; false while the outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
}

/// An invalid field.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorDetail {
    /// Member, parameter or header, such as `to[2]`; empty for the body as a whole.
    #[schema(example = "to[2]")]
    field: String,
    /// What the field must be.
    #[schema(example = "must be an email address, such as user@example.org")]
    message: String,
}

impl From<&Violation> for ErrorDetail {
    fn from(violation: &Violation) -> Self {
        Self { field: violation.field.clone(), message: violation.message.clone() }
    }
}

/// An error response. Every error of an operation converts to it, and it converts to a response in JSON.
#[derive(Debug)]
pub struct ApiError {
    code: ErrorCode,
    message: Cow<'static, str>,
    details: Vec<ErrorDetail>,
    retry_after: Option<Duration>,
    unsent: Option<Unsent>,
}

/// A message that was not sent, or whose outcome is unknown.
#[derive(Debug, Clone, Copy)]
struct Unsent {
    message_id: MessageId,
    retryable: bool,
}

/// What another interface than JSON shows of an error.
impl ApiError {
    /// The resource does not exist.
    #[must_use]
    pub fn not_found() -> Self {
        ErrorCode::NotFound.into()
    }

    /// `INTERNAL_ERROR`. Logs `cause` with the request id; the response does not contain it.
    pub fn unforeseen(cause: impl std::fmt::Display) -> Self {
        Self::internal(cause)
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.code.status()
    }

    /// The error code, for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code.as_str()
    }

    /// The message, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Each invalid field, with what it must be.
    pub fn details(&self) -> impl Iterator<Item = (&str, &str)> {
        self.details.iter().map(|detail| (detail.field.as_str(), detail.message.as_str()))
    }

    /// The time until a retry may succeed, in whole seconds.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after.map(whole_seconds)
    }
}

impl ApiError {
    /// An error with a more specific message.
    pub(crate) fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), ..code.into() }
    }

    /// `RATE_LIMIT_EXCEEDED` with `Retry-After`.
    pub(crate) fn rate_limited(wait: Duration) -> Self {
        Self::later(ErrorCode::RateLimitExceeded, wait)
    }

    /// An error with `Retry-After`.
    pub(crate) fn later(code: ErrorCode, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..code.into() }
    }

    /// Adds `Retry-After`.
    pub(crate) fn after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// `SEND_FAILED`: the message was not sent, or the outcome is unknown.
    pub(crate) fn send_failed(message_id: MessageId, retryable: bool, message: String) -> Self {
        Self { unsent: Some(Unsent { message_id, retryable }), ..Self::new(ErrorCode::SendFailed, message) }
    }

    /// `INTERNAL_ERROR`. Logs `cause` with the request id; the response does not contain it.
    pub(crate) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "request failed");
        ErrorCode::InternalError.into()
    }

    /// `IMAP_ERROR`. Logs `cause`, which may name hosts; the response does not contain it.
    pub(crate) fn mailbox_server(cause: impl std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "mailbox server unavailable");
        ErrorCode::ImapError.into()
    }
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: code.message().into(), details: Vec::new(), retry_after: None, unsent: None }
    }
}

impl From<Violations> for ApiError {
    fn from(violations: Violations) -> Self {
        Self { details: violations.all().iter().map(Into::into).collect(), ..ErrorCode::ValidationError.into() }
    }
}

impl From<Denied> for ApiError {
    fn from(_: Denied) -> Self {
        ErrorCode::AccessDenied.into()
    }
}

impl From<Unavailable> for ApiError {
    fn from(error: Unavailable) -> Self {
        match error {
            Unavailable::Database(cause) => {
                tracing::error!(error = %cause, "account database unavailable");
                ErrorCode::ServiceUnavailable.into()
            }
            Unavailable::UserDatabase(cause) => {
                tracing::error!(error = %cause, "external user database unavailable");
                ErrorCode::ServiceUnavailable.into()
            }
            Unavailable::Room(cause) => {
                tracing::error!(error = %cause, "no buffer space for a large message");
                Self::new(
                    ErrorCode::ServiceUnavailable,
                    "No capacity for a message of this size at the moment; try again later.",
                )
                .after(RETRY_WHEN_FULL)
            }
            Unavailable::Mailboxes(cause) => Self::mailbox_server(cause),
            Unavailable::Unforeseen(cause) => Self::internal(cause),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { code, message, details, retry_after, unsent } = self;
        let body = ErrorBody {
            success: false,
            error: code.as_str(),
            message,
            details,
            message_id: unsent.map(|unsent| unsent.message_id.to_string()),
            retryable: unsent.map(|unsent| unsent.retryable),
        };
        let mut response = (code.status(), Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(wait) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        if code.status() == StatusCode::UNAUTHORIZED {
            // RFC 9110 section 15.5.2 requires a challenge with every 401.
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey header=\"X-MAILAPI-TOKEN\""));
        }
        response
    }
}

/// Seconds, rounded up so that the wait is never too short.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Errors of every operation that needs a token.
const WITH_TOKEN: [ErrorCode; 6] = [
    ErrorCode::NoApiToken,
    ErrorCode::InvalidToken,
    ErrorCode::TokenExpired,
    ErrorCode::RateLimitExceeded,
    ErrorCode::InternalError,
    ErrorCode::ServiceUnavailable,
];

/// Errors of every operation with a JSON body.
const WITH_BODY: [ErrorCode; 5] = [
    ErrorCode::InvalidJson,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
    ErrorCode::ValidationError,
    ErrorCode::RequestTimeout,
];

/// Documented error responses of an operation that needs a token: `own` and the usual errors.
pub(crate) fn documented(own: &[ErrorCode]) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    by_status(own.iter().chain(&WITH_TOKEN))
}

/// As [`documented`], for an operation with a JSON body.
pub(crate) fn documented_with_body(own: &[ErrorCode]) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    by_status(own.iter().chain(&WITH_BODY).chain(&WITH_TOKEN))
}

/// Documented error responses of a public operation.
pub(crate) fn documented_public(own: &[ErrorCode]) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    by_status(own.iter().chain(&[ErrorCode::InternalError]))
}

/// Documented error responses of an operation that has no others.
pub(crate) fn documented_alone(own: &[ErrorCode]) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    by_status(own.iter())
}

/// As [`documented_public`], for an operation with a JSON body.
pub(crate) fn documented_public_with_body(own: &[ErrorCode]) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    let usual = [ErrorCode::RateLimitExceeded, ErrorCode::InternalError, ErrorCode::ServiceUnavailable];
    by_status(own.iter().chain(&WITH_BODY).chain(&usual))
}

fn by_status<'a>(codes: impl Iterator<Item = &'a ErrorCode>) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    let mut of_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in codes {
        let same_status = of_status.entry(code.status().as_u16()).or_default();
        if !same_status.contains(code) {
            same_status.push(*code);
        }
    }
    let response = |(status, codes): (u16, Vec<ErrorCode>)| (status.to_string(), RefOr::T(documented_status(&codes)));
    of_status.into_iter().map(response).collect()
}

/// The response of one status, with the cause and an example of each code.
fn documented_status(codes: &[ErrorCode]) -> DocumentedResponse {
    let line = |code: &ErrorCode| format!("`{}`: {} {}", code.as_str(), code.cause(), code.action());
    let example = |code: &ErrorCode| {
        let mut body = serde_json::json!({ "success": false, "error": code.as_str(), "message": code.message() });
        if *code == ErrorCode::ValidationError {
            // Replaced by a field of the operation itself in `openapi::responses`.
            body["details"] = serde_json::json!([{ "field": "limit", "message": "must be a whole number, 1 or more" }]);
        }
        if *code == ErrorCode::SendFailed {
            body["message_id"] = serde_json::json!("67e55044-10b1-426f-9247-bb680e5fe0c8");
            body["retryable"] = serde_json::json!(true);
        }
        (code.as_str(), RefOr::T(ExampleBuilder::new().value(Some(body)).build()))
    };
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("ApiError")))
        .examples_from_iter(codes.iter().map(example))
        .build();
    let description = codes.iter().map(line).collect::<Vec<_>>().join("\n\n");
    ResponseBuilder::new().description(description).content("application/json", content).build()
}

/// Declares a type that documents an operation's errors: `documented_errors!(Errors, documented, [NotFound])`.
macro_rules! documented_errors {
    ($name:ident, $kind:ident, [$($code:ident),* $(,)?]) => {
        /// Error responses of the operation.
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::Response>,
            > {
                $crate::error::$kind(&[$($crate::error::ErrorCode::$code),*])
            }
        }
    };
}

pub(crate) use documented_errors;
