//! `GET /mailbox/{email}/messages/{uid}`, and the same with the folder in the path.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use mailapi_model::{EmailAddress, FolderName};
use mailapi_service::mailbox::FullMessage;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::shape::{AttachmentEntry, Named, named};
use super::{folder_in, folder_in_path, mailbox_in};
use crate::answer::{Json, LARGE, written};
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::long_answer::LongAnswer;
use crate::octet_budget::Share;
use crate::path::PathParameters;
use crate::query::Query;
use crate::shape::Moment;
use crate::state::HttpState;

/// A message, without the octets of its attachments.
#[derive(Serialize, ToSchema)]
#[schema(as = Message, example = json!({
    "success": true, "uid": 17, "message_id": "<67e55044-10b1-426f-9247-bb680e5fe0c8@example.org>",
    "from": { "name": "Ann Lee", "email": "ann@example.org" }, "to": [{ "name": "", "email": "bob@example.org" }],
    "cc": [], "subject": "The minutes", "date": "2026-11-20T10:15:30.000Z",
    "headers": { "From": "Ann Lee <ann@example.org>", "Subject": "The minutes" },
    "attachments": [
        { "index": 0, "filename": "minutes.txt", "content_type": "text/plain", "size": 6, "content_id": null }
    ],
    "flags": ["\\Seen"], "body": { "text": "See attached.", "html": null }
}))]
pub(crate) struct MessageFound {
    /// Always true.
    success: bool,
    /// Its number in the folder.
    uid: u32,
    /// Its Message-ID header in angle brackets; empty when it has none.
    message_id: String,
    /// The author.
    from: Named,
    /// The To recipients.
    to: Vec<Named>,
    /// The Cc recipients.
    cc: Vec<Named>,
    /// The subject.
    subject: String,
    /// Its Date header; when that is missing or unreadable, the time of its arrival.
    date: Moment,
    /// Its headers, decoded; several of one name are joined by a line feed.
    #[serde(serialize_with = "by_name")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    headers: Vec<(String, String)>,
    /// Its attachments.
    attachments: Vec<AttachmentEntry>,
    /// IMAP flags, such as `\Seen`.
    flags: Vec<String>,
    // The last member: a long one is sent after the rest.
    /// What it says.
    body: BodyFound,
}

/// What a message says.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = Body)]
struct BodyFound {
    /// As plain text; null when it has none.
    #[schema(required)]
    text: Option<String>,
    /// As HTML, as it was sent: not made safe for a browser. Null when it has none.
    #[schema(required)]
    html: Option<String>,
}

/// Each name occurs once, whatever its case.
fn by_name<S: Serializer>(headers: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, value)| (name, value)))
}

impl From<FullMessage> for MessageFound {
    fn from(message: FullMessage) -> Self {
        let FullMessage { summary, cc, headers, text, html, attachments } = message;
        Self {
            success: true,
            uid: summary.uid,
            message_id: summary.message_id,
            from: summary.from.into(),
            to: named(summary.to),
            cc: named(cc),
            subject: summary.subject,
            date: summary.date.into(),
            headers,
            attachments: attachments.into_iter().map(Into::into).collect(),
            flags: summary.flags,
            body: BodyFound { text, html },
        }
    }
}

impl BodyFound {
    fn octets(&self) -> usize {
        [&self.text, &self.html].into_iter().flatten().map(String::len).sum()
    }
}

impl MessageFound {
    /// The same with its body escaped while it is sent.
    fn into_long(mut self) -> Result<LongAnswer, ApiError> {
        const NO_BODY: &str = r#"{"text":null,"html":null}}"#;
        let BodyFound { text, html } = std::mem::take(&mut self.body);
        let mut rest = written(&self)?;
        let length = rest.strip_suffix(NO_BODY.as_bytes()).map(<[u8]>::len);
        rest.truncate(length.ok_or_else(|| ApiError::internal("the body is not the last member"))?);
        Ok(LongAnswer::new(rest).json(r#"{"text":"#).text(text).json(r#","html":"#).text(html).json("}}"))
    }
}

documented_errors!(
    Errors,
    documented,
    [AccessDenied, MailboxNotFound, InvalidFolder, MessageNotFound, ValidationError, ImapError,]
);

/// Read a message
///
/// Reading leaves its flags as they are. For the mailbox's own token, callers with `view_mailbox` on its domain, and
/// admins.
#[utoipa::path(get, path = "/mailbox/{email}/messages/{uid}", tag = "mailbox", operation_id = "get_message",
    params(
        ("email" = String, Path, format = IdnEmail, description = "The mailbox's address.",
            example = "ann@example.org"),
        ("uid" = u32, Path, description = "The message's number in the folder.", example = 17),
        ("folder" = Option<String>, Query, description = "The folder; absent means INBOX.", example = "INBOX"),
    ),
    responses((status = 200, description = "The message.", body = MessageFound), Errors))]
pub(crate) async fn read_message(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let folder = folder_in(&query);
    query.check()?;
    read(&state, &caller, &mailbox, &folder?, path.uid()).await
}

/// Read a message of a folder
///
/// As `/mailbox/{email}/messages/{uid}`, with the folder in the path; a `/` in its name is written `%2F`.
#[utoipa::path(get, path = "/mailbox/{email}/folders/{folder}/messages/{uid}", tag = "mailbox",
    operation_id = "get_folder_message",
    params(
        ("email" = String, Path, format = IdnEmail, description = "The mailbox's address.",
            example = "ann@example.org"),
        ("folder" = String, Path, description = "The folder.", example = "INBOX"),
        ("uid" = u32, Path, description = "The message's number in the folder.", example = 17),
    ),
    responses((status = 200, description = "The message.", body = MessageFound), Errors))]
pub(crate) async fn read_folder_message(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    query.check()?;
    read(&state, &caller, &mailbox, &folder_in_path(&path)?, path.uid()).await
}

async fn read(
    state: &HttpState,
    caller: &mailapi_service::Caller,
    mailbox: &EmailAddress,
    folder: &FolderName,
    uid: u32,
) -> Result<Response, ApiError> {
    let found = MessageFound::from(state.service().read_message(caller, mailbox, folder, uid).await?);
    if found.body.octets() <= LARGE {
        return Ok(Json(found).into_response());
    }
    let answer = found.into_long()?;
    let mut held = state.answers().hold(Share::of(Some(caller)));
    held.grow(answer.octets())?;
    Ok(answer.into_response(held))
}
