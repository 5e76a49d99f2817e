//! The caller's own mailbox: password, app passwords and permissions.

use askama::Template;
use axum::extract::State;
use mailapi_http::{ApiError, HttpState};
use mailapi_model::{EmailAddress, Page, PasswordRule, Secret};

use super::preferences::{self, SaveSentChoice};
use super::sessions::{self, SessionRow};
use super::users::{AppPasswordRow, OWNERS, app_password};
use crate::answer::{Answer, change, done, render};
use crate::fields::Form;
use crate::frame::Frame;
use crate::note::Note;
use crate::session::Session;

const PATH: &str = "/console/account";

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage {
    frame: Frame,
    app_passwords: Vec<AppPasswordRow>,
    sessions: Vec<SessionRow>,
    choices: Vec<SaveSentChoice>,
    permissions: Vec<(&'static str, String)>,
}

/// `GET /users/{email}/app-passwords` and `GET /permissions/mine`.
pub(crate) async fn show(State(state): State<HttpState>, session: Session) -> Answer {
    let email = own(&session)?;
    let all = Page::new(Page::MAX_LIMIT, 0);
    let app_passwords = state.service().list_app_passwords(&session.caller, &email, all).await?;
    let mut permissions: Vec<_> = session
        .caller
        .grants
        .delegated()
        .iter()
        .map(|(permission, domain)| (permission.as_str(), domain.shown().to_owned()))
        .collect();
    permissions.sort_unstable();
    let frame = Frame::new(&session, "Account")
        .call("POST /auth/password", "Every session and user token.")
        .call("POST /users/{email}/app-passwords", OWNERS)
        .call("GET /users/{email}/sessions", OWNERS)
        .call("DELETE /users/{email}/sessions/{id}", OWNERS)
        .call("PUT /users/{email}/preferences", OWNERS)
        .call("GET /permissions/mine", "Every caller.");
    let app_passwords = app_passwords.items.into_iter().map(AppPasswordRow::from).collect();
    let sessions = sessions::rows(&state, &session, &email).await?;
    let choices = preferences::choices(&state, &session, &email).await?;
    render(&AccountPage { frame, app_passwords, sessions, choices, permissions })
}

/// `POST /auth/password`, and changes of app passwords.
pub(crate) async fn act(State(state): State<HttpState>, session: Session, Form(fields): Form) -> Answer {
    let email = own(&session)?;
    match fields.text("act") {
        "end-session" => return sessions::end(&state, &session, email, &fields, PATH).await,
        "save-sent" => return preferences::save(&state, &session, email, &fields, PATH).await,
        "password" => {}
        _ => return app_password(state, &session, email, &fields, PATH.to_owned()).await,
    }
    let current = Secret::new(fields.exact("current_password").to_owned());
    let new = PasswordRule::parse("new_password", fields.exact("new_password").to_owned())?;
    let service = state.service().clone();
    change(async move { service.change_password(&session.caller, &current, new).await }).await?;
    done(PATH, Note::PasswordChanged)
}

/// The caller's mailbox; an API token of admins has none.
fn own(session: &Session) -> Result<EmailAddress, ApiError> {
    session.caller.grants.mailbox().cloned().ok_or_else(ApiError::not_found)
}
