//! Responses of handlers.

use askama::Template;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use mailapi_http::{ApiError, page, to_the_end};

use crate::failure::Failure;
use crate::note::Note;

/// What a handler returns.
pub(crate) type Answer = Result<Response, Failure>;

/// A page.
pub(crate) fn render(template: &impl Template) -> Answer {
    let html = template.render().map_err(Failure::template)?;
    Ok(page("text/html; charset=utf-8", html.into()))
}

/// A page with this status.
pub(crate) fn render_as(status: StatusCode, template: &impl Template) -> Answer {
    let mut response = render(template)?;
    *response.status_mut() = status;
    Ok(response)
}

/// After a change: shows a page with a note. Loading it again does not repeat the change.
pub(crate) fn done(to: &str, note: Note) -> Answer {
    let separator = if to.contains('?') { '&' } else { '?' };
    Ok(see_other(&format!("{to}{separator}{}={}", Note::PARAMETER, note.as_str())))
}

/// Runs a change to its end, even if the browser disconnects.
pub(crate) async fn change<T, E>(work: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, Failure>
where
    T: Send + 'static,
    E: Into<ApiError> + Send + 'static,
{
    Ok(to_the_end(work).await?.map_err(Into::into)?)
}

/// A redirect to a page of the console.
pub(crate) fn see_other(to: &str) -> Response {
    let location = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/console"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}
