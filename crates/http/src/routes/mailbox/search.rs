//! `GET /mailbox/{email}/search`.

use axum::extract::State;
use mailapi_service::mailbox::{FolderScope, SearchHit, SearchQuery};
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::Named;
use super::{folder_or_inbox, mailbox_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::{PageParameters, Query, query_parameters};
use crate::shape::{Moment, Searched};
use crate::state::HttpState;

/// A page of search results.
#[derive(Serialize, ToSchema)]
pub(crate) struct MessagesFound {
    /// Always true.
    success: bool,
    /// The text that was searched for.
    query: String,
    /// Total number of matches.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Messages, newest first.
    messages: Vec<HitEntry>,
}

/// A message that matches.
#[derive(Serialize, ToSchema)]
#[schema(as = SearchHit, example = json!({
    "uid": 1, "folder": "INBOX", "from": { "name": "Alice Lee", "email": "alice@example.test" },
    "subject": "The minutes", "date": "2026-11-20T10:15:30.000Z", "snippet": "…as the minutes of Friday say…"
}))]
struct HitEntry {
    /// Its number in its folder.
    uid: u32,
    /// Folder name.
    folder: String,
    /// Sender.
    from: Named,
    /// Subject.
    subject: String,
    /// Time from the Date header; the arrival time if the header is missing or invalid.
    date: Moment,
    /// Up to 200 characters around the first match, on one line.
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

query_parameters! {
    /// Text, folder and page.
    pub(crate) struct SearchParameters {
        /// Text to search for: 2 to 200 characters, not all whitespace.
        q: Searched, example "minutes";
        /// Folder name, or `*` for all folders; `INBOX` by default.
        folder: Option<String>;
        /// Page of the results.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [AccessDenied, MailboxNotFound, InvalidFolder, ValidationError, ImapError,]);

/// Search messages
///
/// Searches subject, sender, recipients and body, ignoring case, newest match first. For the mailbox owner, callers
/// with `view_mailbox` on the domain, and admins.
#[utoipa::path(get, path = "/mailbox/{email}/search", tag = "mailbox", operation_id = "search_messages",
    params(
        ("email" = String, Path, format = IdnEmail, description = "Mailbox address.", example = "alice@example.test"),
        SearchParameters,
    ),
    responses((status = 200, description = "A page of search results.", body = MessagesFound), Errors))]
pub(crate) async fn search(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<SearchParameters>,
) -> Result<Json<MessagesFound>, ApiError> {
    let mailbox = mailbox_in(&path, &caller)?;
    let SearchParameters { q: text, folder, page } = query.read()?;
    let scope = match folder.as_deref() {
        Some("*") => FolderScope::All,
        _ => FolderScope::One(folder_or_inbox(folder)?),
    };
    let wanted = SearchQuery { text, scope, page };
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
