//! `GET /mailbox/{email}/messages`, and the same with the folder in the path.

use axum::extract::State;
use bytes::Bytes;
use mailapi_model::{EmailAddress, FolderName, Listed, Page, ReadMailbox};
use mailapi_service::mailbox::MessageSummary;
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::{Named, named};
use super::{folder_in_path, folder_or_inbox, reader_in};
use crate::answer::{WrittenJson, written};
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::{PageParameters, Query, query_parameters};
use crate::response_cache::{FolderPage, PageForm};
use crate::shape::Moment;
use crate::state::HttpState;

/// A page of a folder.
#[derive(Serialize, ToSchema)]
pub(crate) struct MessagesListed {
    /// Always true.
    success: bool,
    /// Mailbox address.
    mailbox: String,
    /// Folder name.
    folder: String,
    /// Number of messages in the folder.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Messages, newest first.
    messages: Vec<MessageEntry>,
}

impl MessagesListed {
    fn new(mailbox: &EmailAddress, folder: &FolderName, page: Page, listed: Listed<MessageSummary>) -> Self {
        Self {
            success: true,
            mailbox: mailbox.shown().to_owned(),
            folder: folder.as_str().to_owned(),
            total: listed.total,
            limit: page.limit(),
            offset: page.offset(),
            messages: listed.items.into_iter().map(Into::into).collect(),
        }
    }
}

/// A message in a folder.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageSummary, example = json!({
    "uid": 1, "message_id": "<67e55044-10b1-426f-9247-bb680e5fe0c8@example.org>",
    "from": { "name": "Alice Lee", "email": "alice@example.test" }, "to": [{ "name": "", "email": "bob@example.test" }],
    "subject": "The minutes", "date": "2026-11-20T10:15:30.000Z", "size": 1834, "flags": ["\\Seen"],
    "has_attachments": true, "recipient": "bob@example.test"
}))]
struct MessageEntry {
    /// IMAP UID: the message's number in the folder.
    uid: u32,
    /// Message-ID header with angle brackets; empty if there is none.
    message_id: String,
    /// Sender.
    from: Named,
    /// To recipients.
    to: Vec<Named>,
    /// Subject.
    subject: String,
    /// Time from the Date header; the arrival time if the header is missing or invalid.
    date: Moment,
    /// Size in bytes.
    size: u64,
    /// IMAP flags, such as `\Seen`.
    flags: Vec<String>,
    /// Whether the message has attachments.
    has_attachments: bool,
    /// Address that the message was sent to, which its header need not name: the mailbox, one of its tags, an alias; null
    /// if it is not known.
    #[schema(required)]
    recipient: Option<String>,
}

impl From<MessageSummary> for MessageEntry {
    fn from(message: MessageSummary) -> Self {
        Self {
            uid: message.uid,
            message_id: message.message_id,
            from: message.from.into(),
            to: named(message.to),
            subject: message.subject,
            date: message.date.into(),
            size: message.size,
            flags: message.flags,
            has_attachments: message.has_attachments,
            recipient: message.recipient,
        }
    }
}

query_parameters! {
    /// Folder and page.
    pub(crate) struct ListMessages {
        /// Folder name; `INBOX` by default.
        folder: Option<String>;
        /// Page of the folder.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [AccessDenied, MailboxNotFound, InvalidFolder, ValidationError, ImapError,]);

/// List messages
///
/// Returns one page of a folder, newest first. For the mailbox owner, callers with `view_mailbox` on the domain, and
/// admins.
#[utoipa::path(get, path = "/mailbox/{email}/messages", tag = "mailbox", operation_id = "list_messages",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ListMessages,
    ),
    responses((status = 200, description = "A page of the folder.", body = MessagesListed), Errors))]
pub(crate) async fn list_messages(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<ListMessages>,
) -> Result<WrittenJson, ApiError> {
    let reader = reader_in(&path, &caller)?;
    let ListMessages { folder, page } = query.read()?;
    written_page(&state, &reader, folder_or_inbox(folder)?, page).await
}

/// List messages in a folder
///
/// Same as `/mailbox/{email}/messages`, with the folder in the path. Write `%2F` for a `/` in its name.
#[utoipa::path(get, path = "/mailbox/{email}/folders/{folder}/messages", tag = "mailbox",
    operation_id = "list_folder_messages",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ("folder" = String, Path, description = "Folder name, percent-encoded.", example = "INBOX"),
        PageParameters,
    ),
    responses((status = 200, description = "A page of the folder.", body = MessagesListed), Errors))]
pub(crate) async fn list_folder_messages(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<PageParameters>,
) -> Result<WrittenJson, ApiError> {
    let reader = reader_in(&path, &caller)?;
    let page = query.read()?;
    written_page(&state, &reader, folder_in_path(&path)?, page).await
}

/// Writes a page of a folder, unless it was written before and has not changed.
pub(crate) async fn written_page(
    state: &HttpState,
    reader: &ReadMailbox,
    folder: FolderName,
    page: Page,
) -> Result<WrittenJson, ApiError> {
    let (listed, unwritten) = match state.folder_page(reader, &folder, page, PageForm::Json).await? {
        FolderPage::Written(bytes) => return Ok(WrittenJson(bytes)),
        FolderPage::Read(listed, unwritten) => (listed, unwritten),
    };
    let answer = MessagesListed::new(reader.address(), &folder, page, listed);
    let bytes = Bytes::from(written(&answer)?.into_boxed_slice());
    state.cache_page(unwritten, bytes.clone());
    Ok(WrittenJson(bytes))
}
