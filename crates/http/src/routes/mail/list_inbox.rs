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

/// List messages in the inbox
///
/// Returns the caller's own INBOX in the same form as `/mailbox/{email}/messages`. With an admin's API token, which has
/// no mailbox, `mailbox` is required.
#[utoipa::path(get, path = "/mail/inbox", tag = "mail", operation_id = "list_inbox_messages",
    params(
        ("mailbox" = Option<String>, Query, format = IdnEmail, description = "Mailbox address; the caller's own by default."),
        ("folder" = Option<String>, Query, description = "Folder name; `INBOX` by default."),
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
