//! `GET /mailbox/{email}/search`.

use axum::extract::State;
use mailapi_service::mailbox::{FolderScope, SearchHit, SearchQuery, SearchText};
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::Named;
use super::{folder_in, mailbox_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::path::PathParameters;
use crate::query::Query;
use crate::shape::{Moment, PageParameters, Searched};
use crate::state::HttpState;

/// A page of what was found.
#[derive(Serialize, ToSchema)]
pub(crate) struct MessagesFound {
    /// Always true.
    success: bool,
    /// What was searched for.
    query: String,
    /// How many messages contain it.
    total: u64,
    /// The limit of this page.
    limit: u32,
    /// How many messages come before this page.
    offset: u64,
    /// The messages, newest first.
    messages: Vec<HitEntry>,
}

/// A message that was found.
#[derive(Serialize, ToSchema)]
#[schema(as = SearchHit, example = json!({
    "uid": 17, "folder": "INBOX", "from": { "name": "Ann Lee", "email": "ann@example.org" },
    "subject": "The minutes", "date": "2026-11-20T10:15:30.000Z", "snippet": "…as the minutes of Friday say…"
}))]
struct HitEntry {
    /// Its number in its folder.
    uid: u32,
    /// Its folder.
    folder: String,
    /// The author.
    from: Named,
    /// The subject.
    subject: String,
    /// Its Date header; when that is missing or unreadable, the time of its arrival.
    date: Moment,
    /// At most 200 characters around the first match, on one line.
    snippet: String,
}

impl From<SearchHit> for HitEntry {
    fn from(hit: SearchHit) -> Self {
        Self {
            uid: hit.uid,
            folder: hit.folder.as_str().to_owned(),
            from: hit.from.into(),
            subject: hit.subject,
            date: hit.date.into(),
            snippet: hit.snippet,
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, MailboxNotFound, InvalidFolder, ValidationError, ImapError,]);

/// Search messages
///
/// Finds a text, whatever its case, in subject, author, recipients and body. For the mailbox's own token, callers
/// with `view_mailbox` on its domain, and admins.
#[utoipa::path(get, path = "/mailbox/{email}/search", tag = "mailbox", operation_id = "search_messages",
    params(
        ("email" = String, Path, format = IdnEmail, description = "The mailbox's address.",
            example = "ann@example.org"),
        ("q" = inline(Searched), Query, description = "What to search for: 2 to 200 characters, not only spaces.",
            example = "minutes"),
        ("folder" = Option<String>, Query, description = "The folder; absent means INBOX, `*` all folders.",
            example = "INBOX"),
        PageParameters,
    ),
    responses((status = 200, description = "A page of what was found.", body = MessagesFound), Errors))]
pub(crate) async fn search(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    mut query: Query,
) -> Result<Json<MessagesFound>, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let text: Option<SearchText> = query.required("q");
    let page = query.page();
    let scope = match query.text("folder") {
        Some("*") => Ok(FolderScope::All),
        _ => folder_in(&query).map(FolderScope::One),
    };
    query.check()?;
    let Some(text) = text else { return Err(ErrorCode::ValidationError.into()) };
    let wanted = SearchQuery { text, scope: scope?, page };
    let listed = state.service().search(&caller, &mailbox, &wanted).await?;
    Ok(Json(MessagesFound {
        success: true,
        query: wanted.text.as_str().to_owned(),
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        messages: listed.items.into_iter().map(Into::into).collect(),
    }))
}
