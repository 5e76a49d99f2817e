//! Sessions of a mailbox, on the pages of the account and of the user.

use mailapi_http::HttpState;
use mailapi_model::{EmailAddress, Page, TokenId, TokenRecord};
use mailapi_service::users::UserError;

use crate::answer::{Answer, change, done};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::note::Note;
use crate::session::Session;
use crate::show::Moment;

/// A session in a list.
pub(crate) struct SessionRow {
    pub(crate) id: String,
    pub(crate) is_this: bool,
    pub(crate) created_at: Moment,
    pub(crate) last_used_at: Option<Moment>,
    pub(crate) expires_at: Option<Moment>,
}

/// `GET /users/{email}/sessions`.
pub(crate) async fn rows(
    state: &HttpState,
    session: &Session,
    email: &EmailAddress,
) -> Result<Vec<SessionRow>, Failure> {
    let own = session.caller.token.as_ref().map(|token| token.id);
    let row = |open: TokenRecord| SessionRow {
        id: open.id.to_string(),
        is_this: own == Some(open.id),
        created_at: open.created_at.into(),
        last_used_at: open.last_used_at.map(Moment),
        expires_at: open.expires_at.map(Moment),
    };
    let all = Page::new(Page::MAX_LIMIT, 0);
    let listed = state.service().list_sessions(&session.caller, email, all).await?;
    Ok(listed.items.into_iter().map(row).collect())
}

/// `DELETE /users/{email}/sessions/{id}`.
pub(crate) async fn end(
    state: &HttpState,
    session: &Session,
    email: EmailAddress,
    fields: &Fields,
    back: &str,
) -> Answer {
    let id = fields.text("id").parse().map(TokenId).map_err(|_| UserError::SessionNotFound)?;
    let (service, caller) = (state.service().clone(), session.caller.clone());
    change(async move { service.end_session(&caller, &email, id).await }).await?;
    done(back, Note::SessionEnded)
}
