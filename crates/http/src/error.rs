//! The one shape in which every error leaves the service, and the table of its codes.

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
use crate::shape::ErrorCodeName;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $status:ident, $message:literal;)+) => {
        /// What went wrong, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ErrorCode { $($(#[$doc])* $variant,)+ }

        impl ErrorCode {
            /// All of them.
            pub(crate) const ALL: [Self; [$($code),+].len()] = [$(Self::$variant),+];

            /// The code on the wire.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The HTTP status that goes with it.
            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)+ }
            }

            /// What it says to a person when the case at hand has no better words.
            const fn message(self) -> &'static str {
                match self { $(Self::$variant => $message,)+ }
            }
        }
    };
}

error_codes! {
    /// No token was shown.
    NoApiToken = "NO_API_TOKEN", UNAUTHORIZED, "The header X-MAILAPI-TOKEN is missing.";
    /// The token was never given out.
    InvalidToken = "INVALID_TOKEN", UNAUTHORIZED, "The token is not known.";
    /// The token worked once.
    TokenExpired = "TOKEN_EXPIRED", UNAUTHORIZED, "The token has expired or is inactive.";
    /// Address and password do not open a mailbox.
    InvalidCredentials = "INVALID_CREDENTIALS", UNAUTHORIZED, "Address or password is wrong.";
    /// The caller lacks a right.
    AccessDenied = "ACCESS_DENIED", FORBIDDEN, "The token does not allow this.";
    /// The sender's domain may not send.
    DomainNotAllowed = "DOMAIN_NOT_ALLOWED", FORBIDDEN, "Mail may not be sent from this domain.";
    /// The caller may not send as this address.
    SenderNotAuthorized = "SENDER_NOT_AUTHORIZED", FORBIDDEN, "The token may not send as this address.";
    /// No such mailbox.
    MailboxNotFound = "MAILBOX_NOT_FOUND", NOT_FOUND, "The mailbox does not exist.";
    /// No such message, or none for this caller's eyes.
    MessageNotFound = "MESSAGE_NOT_FOUND", NOT_FOUND, "The message does not exist.";
    /// No such attachment.
    AttachmentNotFound = "ATTACHMENT_NOT_FOUND", NOT_FOUND, "The message has no such attachment.";
    /// No such user.
    UserNotFound = "USER_NOT_FOUND", NOT_FOUND, "The user does not exist.";
    /// No such mail domain.
    DomainNotFound = "DOMAIN_NOT_FOUND", NOT_FOUND, "The domain does not exist.";
    /// No such token, or none for this caller's eyes.
    TokenNotFound = "TOKEN_NOT_FOUND", NOT_FOUND, "The token does not exist.";
    /// No such permission.
    PermissionNotFound = "PERMISSION_NOT_FOUND", NOT_FOUND, "The permission does not exist.";
    /// No such path.
    NotFound = "NOT_FOUND", NOT_FOUND, "There is nothing at this path.";
    /// The path knows other methods.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", METHOD_NOT_ALLOWED, "The path does not know this method; see Allow.";
    /// The body took too long to arrive.
    RequestTimeout = "REQUEST_TIMEOUT", REQUEST_TIMEOUT, "The request took too long to arrive.";
    /// No such folder.
    InvalidFolder = "INVALID_FOLDER", BAD_REQUEST, "The folder does not exist.";
    /// The request breaks a rule of HTTP.
    BadRequest = "BAD_REQUEST", BAD_REQUEST, "The request must have exactly one Host header.";
    /// The body is no JSON.
    InvalidJson = "INVALID_JSON", BAD_REQUEST, "The body is not JSON.";
    /// The body says that it is something else than JSON.
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", UNSUPPORTED_MEDIA_TYPE,
        "The body must be application/json, without a content coding.";
    /// The request or the message is too large.
    PayloadTooLarge = "PAYLOAD_TOO_LARGE", PAYLOAD_TOO_LARGE, "The request is too large.";
    /// A rule is broken; `details` say which.
    ValidationError = "VALIDATION_ERROR", UNPROCESSABLE_ENTITY, "The request breaks a rule; see details.";
    /// The user is there already.
    UserExists = "USER_EXISTS", CONFLICT, "The user exists already.";
    /// The mail domain is there already.
    DomainExists = "DOMAIN_EXISTS", CONFLICT, "The domain exists already.";
    /// The mail domain still has users.
    DomainNotEmpty = "DOMAIN_NOT_EMPTY", CONFLICT, "The domain still has users; force=true deletes them too.";
    /// The permission was granted before.
    PermissionExists = "PERMISSION_EXISTS", CONFLICT, "The user holds this permission already.";
    /// The idempotency key belongs to another request.
    IdempotencyConflict = "IDEMPOTENCY_CONFLICT", CONFLICT,
        "The Idempotency-Key was used for another request.";
    /// Too many requests.
    RateLimitExceeded = "RATE_LIMIT_EXCEEDED", TOO_MANY_REQUESTS, "Too many requests; see Retry-After.";
    /// Too many failed log-ins.
    AccountLocked = "ACCOUNT_LOCKED", TOO_MANY_REQUESTS, "Too many failed log-ins; see Retry-After.";
    /// The mail server did not take the message.
    SendFailed = "SEND_FAILED", INTERNAL_SERVER_ERROR, "The mail server did not take the message.";
    /// The mailbox server cannot be reached.
    ImapError = "IMAP_ERROR", INTERNAL_SERVER_ERROR, "The mailbox server is not available.";
    /// Unforeseen.
    InternalError = "INTERNAL_ERROR", INTERNAL_SERVER_ERROR,
        "Something went wrong; the log has it under the answer's X-Request-Id.";
    /// The account database cannot be reached.
    ServiceUnavailable = "SERVICE_UNAVAILABLE", SERVICE_UNAVAILABLE, "The service is not available; try again later.";
}

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiError)]
pub(crate) struct ErrorBody {
    /// Always false.
    success: bool,
    /// The code, for programs.
    #[schema(value_type = ErrorCodeName, example = "VALIDATION_ERROR")]
    error: &'static str,
    /// What went wrong, for people.
    #[schema(value_type = String, example = "The request breaks a rule; see details.")]
    message: Cow<'static, str>,
    /// With `VALIDATION_ERROR`: each rule that the request breaks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<ErrorDetail>,
    /// With `SEND_FAILED`: the identifier under which the message is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// With `SEND_FAILED`: whether a retry may succeed. False while it is unknown whether the message was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
}

/// One rule that a request breaks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorDetail {
    /// The member, parameter or header, such as `to[2]`; empty for the body as a whole.
    #[schema(example = "to[2]")]
    field: String,
    /// What is expected of it.
    #[schema(example = "must be an email address, such as user@example.org")]
    message: String,
}

impl From<&Violation> for ErrorDetail {
    fn from(violation: &Violation) -> Self {
        Self { field: violation.field.clone(), message: violation.message.clone() }
    }
}

/// An error on its way out.
#[derive(Debug)]
pub(crate) struct ApiError {
    code: ErrorCode,
    message: Cow<'static, str>,
    details: Vec<ErrorDetail>,
    retry_after: Option<Duration>,
    unsent: Option<Unsent>,
}

/// A message that was not sent.
#[derive(Debug, Clone, Copy)]
struct Unsent {
    message_id: MessageId,
    retryable: bool,
}

impl ApiError {
    /// The code with words that fit the case better than its own.
    pub(crate) fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), ..code.into() }
    }

    /// Too many requests; the caller may come back after `wait`.
    pub(crate) fn rate_limited(wait: Duration) -> Self {
        Self::later(ErrorCode::RateLimitExceeded, wait)
    }

    /// Not now; the caller may come back after `wait`.
    pub(crate) fn later(code: ErrorCode, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..code.into() }
    }

    /// The same; the caller may come back after `wait`.
    pub(crate) fn after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// The message was not sent, or the outcome is still open; see its status.
    pub(crate) fn send_failed(message_id: MessageId, retryable: bool, message: String) -> Self {
        Self { unsent: Some(Unsent { message_id, retryable }), ..Self::new(ErrorCode::SendFailed, message) }
    }

    /// Something unforeseen. The log gets `cause`, under the request's id; the caller gets nothing of it.
    pub(crate) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "a request failed");
        ErrorCode::InternalError.into()
    }

    /// The mailbox server did not answer. The log gets `cause`, which may name hosts; the caller gets nothing of it.
    pub(crate) fn mailbox_server(cause: impl std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "the mailbox server is not available");
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
                tracing::error!(error = %cause, "the account database is not available");
                ErrorCode::ServiceUnavailable.into()
            }
            Unavailable::Room(cause) => {
                tracing::error!(error = %cause, "there is no room for a large message");
                Self::new(
                    ErrorCode::ServiceUnavailable,
                    "There is no room for a message of this size at the moment; try again later.",
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
            // RFC 9110 section 15.5.2 wants a challenge with every 401, whatever the scheme is called.
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey header=\"X-MAILAPI-TOKEN\""));
        }
        response
    }
}

/// Seconds rounded up, so that whoever waits that long has waited long enough.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Errors that every operation with a token can answer.
const WITH_TOKEN: [ErrorCode; 6] = [
    ErrorCode::NoApiToken,
    ErrorCode::InvalidToken,
    ErrorCode::TokenExpired,
    ErrorCode::RateLimitExceeded,
    ErrorCode::InternalError,
    ErrorCode::ServiceUnavailable,
];

/// Errors that every operation with a JSON body can answer.
const WITH_BODY: [ErrorCode; 5] = [
    ErrorCode::InvalidJson,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
    ErrorCode::ValidationError,
    ErrorCode::RequestTimeout,
];

/// The documented responses of an operation that needs a token and answers `own` besides the usual errors.
pub(crate) fn documented(own: &[ErrorCode]) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    by_status(own.iter().chain(&WITH_TOKEN))
}

/// As [`documented`], for an operation that also reads a JSON body.
pub(crate) fn documented_with_body(own: &[ErrorCode]) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    by_status(own.iter().chain(&WITH_BODY).chain(&WITH_TOKEN))
}

/// The documented responses of an operation for everybody.
pub(crate) fn documented_public(own: &[ErrorCode]) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    by_status(own.iter().chain(&[ErrorCode::InternalError]))
}

/// As [`documented_public`], for an operation that also reads a JSON body.
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

/// One status: its codes in the description, and an example of each.
fn documented_status(codes: &[ErrorCode]) -> DocumentedResponse {
    let line = |code: &ErrorCode| format!("`{}`: {}", code.as_str(), code.message());
    let example = |code: &ErrorCode| {
        let mut body = serde_json::json!({ "success": false, "error": code.as_str(), "message": code.message() });
        if *code == ErrorCode::ValidationError {
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

/// Names a type that documents an operation's own errors: `errors!(Errors: with_body [DomainExists])`.
macro_rules! documented_errors {
    ($name:ident, $kind:ident, [$($code:ident),* $(,)?]) => {
        /// What the operation answers when it fails.
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
