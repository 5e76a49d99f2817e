//! Logging in and out.

use askama::Template;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mailapi_http::{ApiError, Authenticated, HttpState, TokenUse, count_client};
use mailapi_model::{LoginProtocol, Secret, TokenValue, Visitor};
use mailapi_service::auth::NotASession;

use crate::answer::{Answer, render_as, see_other};
use crate::failure::{Failure, in_words};
use crate::fields::{Fields, Form, Query};
use crate::note::Note;
use crate::session::{Session, forget, keep};

#[derive(Template, Default)]
#[template(path = "log_in.html")]
struct LogInPage {
    note: Option<&'static str>,
    error: Option<String>,
    next: String,
    email: String,
    with_token: bool,
}

impl LogInPage {
    /// The page again, after a failed login.
    fn again(fields: &Fields, with_token: bool, error: &ApiError) -> Answer {
        let page = Self {
            error: Some(in_words(error)),
            next: next_of(fields),
            email: fields.text("email").to_owned(),
            with_token,
            ..Self::default()
        };
        render_as(error.status(), &page)
    }
}

/// The login page.
pub(crate) async fn show(Query(query): Query) -> Answer {
    let note = Note::named(query.text(Note::PARAMETER)).map(|note| note.text());
    render_as(StatusCode::OK, &LogInPage { note, next: next_of(&query), ..LogInPage::default() })
}

/// Logs in with the address and the password of a mailbox: the login of the API, with its limits.
pub(crate) async fn with_password(State(state): State<HttpState>, request: Request) -> Answer {
    let (mut parts, body) = request.into_parts();
    let address = count_client(&mut parts, &state).await?;
    let Form(fields) = Form::from_request(Request::from_parts(parts, body), &state).await?;
    let password = Secret::new(fields.exact("password").to_owned());
    let visitor = Visitor { protocol: LoginProtocol::Http, address };
    match state.service().login(fields.text("email"), &password, visitor).await {
        Ok(session) => Ok(entered(&state, &session.value, &fields)),
        Err(error) => LogInPage::again(&fields, false, &error.into()),
    }
}

/// Logs in with an API token. The cookie has the token itself, so it ends when the token is revoked.
pub(crate) async fn with_token(State(state): State<HttpState>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let Form(fields) = Form::from_request(Request::from_parts(parts.clone(), body), &state).await?;
    let token = TokenValue::from_caller(fields.text("token"));
    match Authenticated::by_token(&parts, &state, &token, TokenUse::Act).await {
        Ok(_) => Ok(entered(&state, &token, &fields)),
        Err(error) => LogInPage::again(&fields, true, &error),
    }
}

fn entered(state: &HttpState, token: &TokenValue, fields: &Fields) -> Response {
    let seconds = state.service().settings().session_lifetime.as_secs();
    let next = next_of(fields);
    let to = if next.is_empty() { format!("/console?{}={}", Note::PARAMETER, Note::NoCookie.as_str()) } else { next };
    ([keep(token, seconds)], see_other(&to)).into_response()
}

/// The page to return to: one of the console.
fn next_of(fields: &Fields) -> String {
    let next = fields.text("next");
    let is_ours = next == "/console" || next.starts_with("/console/") || next.starts_with("/console?");
    // A second slash or a backslash would name another host.
    let is_plain = !next.contains("//") && !next.contains('\\') && !next.chars().any(char::is_control);
    if is_ours && is_plain { next.to_owned() } else { String::new() }
}

/// Ends the session and deletes the cookie. An API token stays valid: others may use it.
pub(crate) async fn log_out(State(state): State<HttpState>, session: Session) -> Answer {
    match state.service().logout(&session.caller).await {
        Ok(()) | Err(NotASession::ApiToken | NotASession::Ended) => {}
        Err(error) => return Err(error.into()),
    }
    let to = format!("/console/login?{}={}", Note::PARAMETER, Note::LoggedOut.as_str());
    Ok(([forget()], see_other(&to)).into_response())
}

/// No such page.
pub(crate) async fn unknown(State(state): State<HttpState>, request: Request) -> Answer {
    let (mut parts, _) = request.into_parts();
    count_client(&mut parts, &state).await?;
    Err(Failure::not_found())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_returns_to_the_console_only() {
        let next = |next: &str| {
            let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
            next_of(&Fields::parse(query.as_bytes()))
        };
        for ours in ["/console", "/console/messages?status=sent", "/console?done=x"] {
            assert_eq!(next(ours), ours);
        }
        for other in
            ["https://evil.example", "//evil.example", "/consoles", "/console//evil", "/console/\\evil", "/docs"]
        {
            assert_eq!(next(other), "", "{other}");
        }
    }
}
