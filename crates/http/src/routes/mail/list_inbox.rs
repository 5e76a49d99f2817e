//! `GET /mail/inbox`.

use axum::extract::State;
use mailapi_model::{EmailAddress, Violations};
use mailapi_service::mail::ListInboxError;

use crate::answer::WrittenJson;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::Query;
use crate::routes::mailbox::{MessagesListed, folder_in, written_page};
use crate::shape::PageParameters;
use crate::state::HttpState;

documented_errors!(Errors, documented, [AccessDenied, MailboxNotFound, InvalidFolder, ValidationError, ImapError,]);

/// List the inbox
///
/// The caller's own INBOX, in the shape of `/mailbox/{email}/messages`. An admin token has no mailbox of its own and
/// names one.
#[utoipa::path(get, path = "/mail/inbox", tag = "mail", operation_id = "list_inbox_messages",
    params(
        ("mailbox" = Option<String>, Query, format = IdnEmail, description = "The mailbox; absent means the caller's own.",
            example = "ann@example.org"),
        ("folder" = Option<String>, Query, description = "The folder; absent means INBOX."),
        PageParameters,
    ),
    responses((status = 200, description = "A page of messages.", body = MessagesListed), Errors))]
pub(crate) async fn list_inbox(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    mut query: Query,
) -> Result<WrittenJson, ApiError> {
    let mailbox: Option<EmailAddress> = query.parsed("mailbox");
    let page = query.page();
    let folder = folder_in(&query);
    query.check()?;
    let folder = folder?;
    let reader = state.service().inbox_to_list(&caller, mailbox.as_ref())?;
    written_page(&state, &reader, folder, page).await
}

impl From<ListInboxError> for ApiError {
    fn from(error: ListInboxError) -> Self {
        match error {
            ListInboxError::NoMailbox => Violations::of("mailbox", error.to_string()).into(),
            ListInboxError::Denied(denied) => denied.into(),
        }
    }
}
