//! Error pages. They have the status, the code and the message of the API.

use askama::Template;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use mailapi_http::{ApiError, page};

use crate::answer::see_other;

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The error of an operation.
    Api(ApiError),
    /// The proof of a dangerous change was not accepted: the form again, with what was typed.
    Proof(ApiError, Box<Again>),
    /// The caller is not logged in: the login page, with this address to return to.
    LogIn(String),
    /// Another site sent the request.
    CrossSite,
    /// A template failed.
    Template(askama::Error),
}

impl Failure {
    /// No such page.
    pub(crate) fn not_found() -> Self {
        Self::Api(ApiError::not_found())
    }

    /// Logs the cause, which the page does not show.
    pub(crate) fn unforeseen(error: &dyn std::fmt::Display) -> Self {
        Self::Api(ApiError::unforeseen(error))
    }

    pub(crate) const fn template(error: askama::Error) -> Self {
        Self::Template(error)
    }
}

impl<E: Into<ApiError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Api(error.into())
    }
}

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage<'a> {
    status: u16,
    code: &'a str,
    message: &'a str,
    details: Vec<(&'a str, &'a str)>,
    again: Option<Again>,
}

/// A form to send again with another proof.
#[derive(Debug)]
pub(crate) struct Again {
    /// What proves who the caller is.
    pub(crate) label: &'static str,
    /// The path of the form.
    pub(crate) action: String,
    /// Its fields without the proof.
    pub(crate) fields: Vec<(String, String)>,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::LogIn(to) => see_other(&to),
            Self::Api(error) => error_page(&error, None),
            Self::Proof(error, again) => error_page(&error, Some(*again)),
            Self::CrossSite => written(&FailurePage {
                status: StatusCode::FORBIDDEN.as_u16(),
                code: "CROSS_SITE_REQUEST",
                message: "The form was sent from another site. Open the console and try again.",
                details: Vec::new(),
                again: None,
            }),
            Self::Template(error) => {
                tracing::error!(%error, "page failed");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

/// Returns the message of an error for people, who see no header of the response.
pub(crate) fn in_words(error: &ApiError) -> String {
    if error.details().next().is_some() {
        return "Correct these fields.".to_owned();
    }
    let Some(seconds) = error.retry_after() else { return error.message().to_owned() };
    let message = error.message().split_once("; see Retry-After").map_or(error.message(), |(message, _)| message);
    let wait = match seconds {
        0..=1 => "1 second".to_owned(),
        2..=119 => format!("{seconds} seconds"),
        _ => format!("{} minutes", seconds.div_ceil(60)),
    };
    format!("{}. Try again in {wait}.", message.trim_end_matches('.'))
}

fn error_page(error: &ApiError, again: Option<Again>) -> Response {
    // While logins are locked, no proof is accepted.
    let again = again.filter(|_| error.retry_after().is_none());
    let message = again.as_ref().map_or_else(|| in_words(error), |again| format!("{} is wrong.", again.label));
    let response = written(&FailurePage {
        status: error.status().as_u16(),
        code: error.code(),
        message: &message,
        details: error.details().collect(),
        again,
    });
    with_retry_after(response, error)
}

/// Adds the header `Retry-After` of an error.
pub(crate) fn with_retry_after(mut response: Response, error: &ApiError) -> Response {
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn written(template: &FailurePage<'_>) -> Response {
    let Ok(html) = template.render() else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let mut response = page("text/html; charset=utf-8", html.into());
    *response.status_mut() = StatusCode::from_u16(template.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}
