//! `GET /mail/inbox`.

use axum::extract::State;
use mailapi_model::{EmailAddress, Violations};
use mailapi_service::mail::ListInboxError;

use crate::answer::WrittenJson;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query, query_parameters};
use crate::routes::mailbox::{MessagesListed, folder_or_inbox, written_page};
use crate::state::HttpState;

query_parameters! {
    /// Mailbox, folder and page.
    pub(crate) struct ListInbox {
        /// Mailbox address; the caller's own by default.
        mailbox: Option<EmailAddress>;
        /// Folder name; `INBOX` by default.
        folder: Option<String>;
        /// Page of the folder.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [AccessDenied, MailboxNotFound, InvalidFolder, ValidationError, ImapError,]);

/// List messages in the inbox
///
/// Returns the caller's own INBOX in the same form as `/mailbox/{email}/messages`. With an admin's API token, which has
/// no mailbox, `mailbox` is required.
#[utoipa::path(get, path = "/mail/inbox", tag = "mail", operation_id = "list_inbox_messages",
    params(ListInbox),
    responses((status = 200, description = "A page of messages.", body = MessagesListed), Errors))]
pub(crate) async fn list_inbox(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<ListInbox>,
) -> Result<WrittenJson, ApiError> {
    let ListInbox { mailbox, folder, page } = query.read()?;
    let folder = folder_or_inbox(folder)?;
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
