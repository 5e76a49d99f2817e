//! `POST /mailbox/{email}/drafts`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{Draft, DraftFields, DraftLimits, EmailAddress, Violations};
use mailapi_service::Buffer;
use mailapi_service::mailbox::SavedDraft;
use serde::Serialize;
use utoipa::ToSchema;

use super::DraftsOwner;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::offload;
use crate::large_json::LargeJsonBody;
use crate::request_body::{CustomHeaders, request_body};
use crate::routes::mail::send::{Attachment, MessageBody, attachment_fields};
use crate::routes::to_the_end;
use crate::shape::{HeaderText, NamedAddressText};
use crate::state::HttpState;

request_body! {
    /// A message to store, with the members of a send request. All of them may be absent.
    pub(crate) struct DraftBody as "SaveDraftRequest" {
        /// Sender: `user@host` or `Name <user@host>`; the mailbox by default. Whether the token may send as this address
        /// is checked when the message is sent.
        from: Option<NamedAddressText>,
        /// Recipients.
        to: Option<Vec<NamedAddressText>>,
        /// Carbon copy recipients.
        cc: Option<Vec<NamedAddressText>>,
        /// Blind carbon copy recipients. The draft names them in its header.
        bcc: Option<Vec<NamedAddressText>>,
        /// Subject; empty by default.
        subject: Option<HeaderText>,
        /// Message text; empty by default.
        body: Option<MessageBody>,
        /// Reply-To address: `user@host` or `Name <user@host>`.
        reply_to: Option<NamedAddressText>,
        /// Additional headers. Structural headers such as `From` or `Content-Type` cannot be set.
        headers: Option<CustomHeaders>,
        /// Attached files.
        attachments: Option<Vec<Attachment>>,
        /// UID of the draft that this one replaces. A message without the flag `\Draft` is kept.
        replaces: Option<u32>,
    }
    example {
        "to": ["Bob <bob@example.test>"], "subject": "Meeting minutes", "body": { "text": "See attached." },
        "attachments": [{ "filename": "minutes.txt", "content": "SGVsbG8h", "content_type": "text/plain" }],
        "replaces": 1
    }
}

/// Location of a draft.
#[derive(Serialize, ToSchema)]
#[schema(as = DraftSaved, example = json!({
    "success": true, "email": "alice@example.test", "folder": "Drafts", "uid": 2
}))]
pub(crate) struct Saved {
    /// Always true.
    success: bool,
    /// Mailbox address.
    email: String,
    /// Folder for drafts.
    folder: String,
    /// IMAP UID: the number of the draft in the folder.
    uid: u32,
}

impl Saved {
    fn new(mailbox: &EmailAddress, SavedDraft { folder, uid }: SavedDraft) -> Self {
        Self { success: true, email: mailbox.shown().to_owned(), folder: folder.as_str().to_owned(), uid }
    }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, MailboxNotFound, ImapError]);

/// Save a draft
///
/// For the mailbox owner and for admins. Stores a message with the flags `\Draft` and `\Seen` in the folder for drafts,
/// and removes the draft that it replaces. The folder has the special use `\Drafts`, or else the name `Drafts`; it is
/// created if there is none. `PAYLOAD_TOO_LARGE` also means that the mailbox is full.
#[utoipa::path(post, path = "/mailbox/{email}/drafts", tag = "mailbox", operation_id = "save_draft",
    params(("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test")),
    request_body = DraftBody,
    responses((status = 201, description = "The draft is saved.", body = Saved), Errors))]
pub(crate) async fn save_draft(
    State(state): State<HttpState>,
    DraftsOwner { caller, mailbox }: DraftsOwner,
    mut body: LargeJsonBody,
) -> Result<(StatusCode, Json<Saved>), ApiError> {
    let (service, limits) = (state.service().clone(), state.service().settings().draft);
    let permits = body.permits.take();
    let (buffer, author) = (service.buffer().clone(), mailbox.clone());
    let (draft, replaces) = offload(body.length, &state, move || read(body, &author, &limits, &buffer)).await??;
    let of = mailbox.clone();
    let saved = to_the_end(async move {
        let _permits = permits;
        service.save_draft(&caller, &of, draft, replaces).await
    });
    Ok((StatusCode::CREATED, Json(Saved::new(&mailbox, saved.await??))))
}

/// Blocks on files when the body is large.
fn read(
    body: LargeJsonBody,
    author: &EmailAddress,
    limits: &DraftLimits,
    buffer: &Buffer,
) -> Result<(Draft, Option<u32>), ApiError> {
    let DraftBody { from, to, cc, bcc, subject, body, reply_to, headers, attachments, replaces } =
        body.read::<DraftBody>(Violations::none())?;
    let (text, html) = body.map(MessageBody::into_texts).unwrap_or_default();
    let fields = DraftFields {
        from: from.unwrap_or_else(|| author.shown().to_owned()),
        to: to.unwrap_or_default(),
        cc: cc.unwrap_or_default(),
        bcc: bcc.unwrap_or_default(),
        subject,
        text,
        html,
        reply_to,
        headers: headers.unwrap_or_default(),
        attachments: attachment_fields(attachments, buffer)?,
    };
    Ok((Draft::parse_unfinished(fields, limits)?, replaces))
}
