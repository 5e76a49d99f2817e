//! `GET /mailbox/{email}/messages/{uid}`, and the same with the folder in the path.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use mailapi_model::{EmailAddress, FolderName};
use mailapi_service::mailbox::FullMessage;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::shape::{AttachmentEntry, Named, named};
use super::{FolderParameter, folder_in_path, folder_or_inbox, mailbox_in};
use crate::answer::{LARGE, WrittenJson, written};
use crate::byte_budget::Share;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json_text::push_escaped;
use crate::long_answer::LongAnswer;
use crate::path::PathParameters;
use crate::query::Query;
use crate::shape::Moment;
use crate::state::HttpState;

/// A message, without the content of its attachments.
#[derive(Serialize, ToSchema)]
#[schema(as = Message, example = json!({
    "success": true, "uid": 1, "message_id": "<67e55044-10b1-426f-9247-bb680e5fe0c8@example.org>",
    "from": { "name": "Alice Lee", "email": "alice@example.test" }, "to": [{ "name": "", "email": "bob@example.test" }],
    "cc": [], "subject": "The minutes", "date": "2026-11-20T10:15:30.000Z",
    "headers": { "From": "Alice Lee <alice@example.test>", "Subject": "The minutes" },
    "attachments": [
        { "index": 0, "filename": "minutes.txt", "content_type": "text/plain", "size": 6, "content_id": null }
    ],
    "flags": ["\\Seen"], "recipient": "bob@example.test", "body": { "text": "See attached.", "html": null }
}))]
pub(crate) struct MessageFound {
    /// Always true.
    success: bool,
    /// IMAP UID: the message's number in the folder.
    uid: u32,
    /// Message-ID header with angle brackets; empty if there is none.
    message_id: String,
    /// Sender.
    from: Named,
    /// To recipients.
    to: Vec<Named>,
    /// Cc recipients.
    cc: Vec<Named>,
    /// Subject.
    subject: String,
    /// Time from the Date header; the arrival time if the header is missing or invalid.
    date: Moment,
    /// Decoded headers; values of a repeated header are joined by a line feed.
    #[serde(serialize_with = "by_name")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    headers: Vec<(String, String)>,
    /// Attachments.
    attachments: Vec<AttachmentEntry>,
    /// IMAP flags, such as `\Seen`.
    flags: Vec<String>,
    /// Address that the message was sent to, which its header need not name; null if it is not known.
    #[schema(required)]
    recipient: Option<String>,
    // The last member, because `into_long` streams it after the rest.
    /// Message text.
    body: BodyFound,
}

/// Message text.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = Body)]
struct BodyFound {
    /// Plain text; null if there is none.
    #[schema(required)]
    text: Option<String>,
    /// HTML as sent, not sanitized; null if there is none.
    #[schema(required)]
    html: Option<String>,
}

/// Writes a map; each name occurs once, ignoring case.
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
            recipient: summary.recipient,
            body: BodyFound { text, html },
        }
    }
}

impl BodyFound {
    fn bytes(&self) -> usize {
        [&self.text, &self.html].into_iter().flatten().map(String::len).sum()
    }
}

impl MessageFound {
    /// Writes everything before the body, which is returned.
    fn without_body(mut self) -> Result<(Vec<u8>, BodyFound), ApiError> {
        const NO_BODY: &str = r#"{"text":null,"html":null}}"#;
        let body = std::mem::take(&mut self.body);
        let mut rest = written(&self)?;
        let length = rest.strip_suffix(NO_BODY.as_bytes()).map(<[u8]>::len);
        rest.truncate(length.ok_or_else(|| ApiError::internal("the body is not the last member"))?);
        Ok((rest, body))
    }

    fn into_short(self) -> Result<WrittenJson, ApiError> {
        let (mut json, body) = self.without_body()?;
        for (name, text) in [(&br#"{"text":"#[..], body.text), (br#","html":"#, body.html)] {
            json.extend_from_slice(name);
            match text {
                Some(text) => {
                    json.push(b'"');
                    push_escaped(&text, &mut json);
                    json.push(b'"');
                }
                None => json.extend_from_slice(b"null"),
            }
        }
        json.extend_from_slice(b"}}");
        Ok(WrittenJson(json.into()))
    }

    /// Escapes the body while it is sent.
    fn into_long(self) -> Result<LongAnswer, ApiError> {
        let (rest, BodyFound { text, html }) = self.without_body()?;
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
/// Leaves the flags unchanged. For the mailbox owner, callers with `view_mailbox` on the domain, and admins.
#[utoipa::path(get, path = "/mailbox/{email}/messages/{uid}", tag = "mailbox", operation_id = "get_message",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ("uid" = u32, Path, description = "IMAP UID of the message.", example = 1),
        FolderParameter,
    ),
    responses((status = 200, description = "The message.", body = MessageFound), Errors))]
pub(crate) async fn read_message(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<FolderParameter>,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let folder = folder_or_inbox(query.read()?.folder)?;
    read(&state, &caller, &mailbox, &folder, path.uid()).await
}

/// Read a message in a folder
///
/// Same as `/mailbox/{email}/messages/{uid}`, with the folder in the path. Write `%2F` for a `/` in its name.
#[utoipa::path(get, path = "/mailbox/{email}/folders/{folder}/messages/{uid}", tag = "mailbox",
    operation_id = "get_folder_message",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        ("folder" = String, Path, description = "Folder name, percent-encoded.", example = "INBOX"),
        ("uid" = u32, Path, description = "IMAP UID of the message.", example = 1),
    ),
    responses((status = 200, description = "The message.", body = MessageFound), Errors))]
pub(crate) async fn read_folder_message(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Response, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
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
    if found.body.bytes() <= LARGE {
        return Ok(found.into_short()?.into_response());
    }
    let answer = found.into_long()?;
    let mut held = state.answers().hold(Share::of(Some(caller)));
    held.grow(answer.bytes())?;
    Ok(answer.into_response(held))
}
