//! What too many failed logins have locked.

use askama::Template;
use axum::extract::State;
use mailapi_http::HttpState;
use mailapi_model::{ClientNetwork, EmailAddress, TokenId, Violations};
use mailapi_service::auth::{Lockout, Unlock};

use crate::answer::{Answer, done, render};
use crate::fields::{Form, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::pager::Pager;
use crate::session::Session;
use crate::show::Moment;

const PATH: &str = "/console/lockouts";
const RIGHT: &str = "Admins.";

#[derive(Template)]
#[template(path = "lockouts.html")]
struct LockoutsPage {
    frame: Frame,
    rows: Vec<Row>,
    pager: Pager,
}

struct Row {
    mailbox: Option<String>,
    token: Option<String>,
    client: Option<String>,
    until: Moment,
}

impl From<Lockout> for Row {
    fn from(Lockout { mailbox, token, client, until }: Lockout) -> Self {
        Self {
            mailbox: mailbox.map(|mailbox| mailbox.shown().to_owned()),
            token: token.map(|token| token.to_string()),
            client: client.map(|client| client.to_string()),
            until: until.into(),
        }
    }
}

/// `GET /auth/lockouts`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(query): Query) -> Answer {
    let page = query.page();
    let listed = state.service().list_lockouts(&session.caller, page)?;
    let pager = Pager::new(PATH, &query, page, listed.items.len(), listed.total);
    let frame =
        Frame::new(&session, "Lock-outs").call("GET /auth/lockouts", RIGHT).call("POST /auth/lockouts/unlock", RIGHT);
    render(&LockoutsPage { frame, rows: listed.items.into_iter().map(Row::from).collect(), pager })
}

/// `POST /auth/lockouts/unlock`.
pub(crate) async fn unlock(State(state): State<HttpState>, session: Session, Form(fields): Form) -> Answer {
    session.caller.grants.admin()?;
    let mut violations = Violations::none();
    let mailbox = fields.parsed::<EmailAddress>("mailbox", &mut violations);
    let client = fields.parsed::<ClientNetwork>("client", &mut violations);
    let token = fields.parsed("token", &mut violations).map(TokenId);
    if is_own(&session, mailbox.as_ref(), token) {
        // Otherwise a person at an open browser could guess the password without a limit.
        violations.add("lock-out", "is your own, and ends by itself; another admin can end it");
    }
    let unlock = violations.or(Some(Unlock { mailbox, client, token }))?;
    state.service().unlock(&session.caller, &unlock)?;
    done(PATH, Note::Unlocked)
}

/// Returns whether a lock-out limits the guesses of this session.
fn is_own(session: &Session, mailbox: Option<&EmailAddress>, token: Option<TokenId>) -> bool {
    let caller = &session.caller;
    let is_mailbox = mailbox.is_some() && mailbox == caller.grants.mailbox();
    let is_token = token.is_some() && token == caller.token.as_ref().map(|token| token.id);
    is_mailbox || is_token
}
