//! Substring search: uses the index where possible, and reads the texts otherwise.

use mailapi_backend::mime;
use mailapi_backend::{Correspondent, FolderScope, SearchHit, SearchQuery, SearchText};
use mailapi_model::{EmailAddress, FolderName, Listed, Page, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, Row, params};

use super::id::{ContentId, FolderId, MailboxId};
use super::search_permits::Steps;
use super::{MessageStore, MessageStoreError, damaged, index};

/// Minimum number of characters that the trigram index can search.
const TRIGRAM: usize = 3;

/// The folders of a search.
#[derive(Debug, Clone, Copy)]
struct Scope {
    mailbox: MailboxId,
    /// `None` means the whole mailbox.
    folder: Option<FolderId>,
}

/// A found entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    // The order of the fields defines the order across folders, reversed: newest first.
    internal_date: i64,
    folder: FolderId,
    uid: u32,
    content: ContentId,
}

/// Bytes that a search step may read before other searches run: a few milliseconds of work.
const STEP_BYTES: u64 = 4 * 1024 * 1024;
/// Cost of reading a row, in bytes.
const ROW_BYTES: u64 = 1024;

/// Bytes read in a step.
#[derive(Debug, Default)]
pub(super) struct Share(u64);

impl Share {
    /// Counts a row and the bytes read for it. Returns false if the step must end.
    pub(super) const fn takes(&mut self, bytes: u64) -> bool {
        self.0 = self.0.saturating_add(bytes).saturating_add(ROW_BYTES);
        self.0 < STEP_BYTES
    }
}

impl MessageStore {
    /// Returns the UIDs of a folder's messages that contain `text`, ascending. The search ignores case and
    /// covers subject, from, to, cc and the body text.
    ///
    /// # Errors
    /// [`MessageStoreError::NoSuchFolder`].
    pub async fn search_text(&self, folder: FolderId, text: &str) -> Result<Vec<u32>, MessageStoreError> {
        let mailbox = self.folder_now(folder).await?.mailbox;
        let scope = Scope { mailbox, folder: Some(folder) };
        let found = find(&mut self.search_in(mailbox), scope, index::comparable(text)).await?;
        Ok(found.into_iter().rev().map(|found| found.uid).collect())
    }

    pub(crate) async fn find_text(
        &self,
        address: &EmailAddress,
        query: &SearchQuery,
    ) -> Result<Listed<SearchHit>, MessageStoreError> {
        let (mailbox, query) = (self.mailbox(address).await?, query.clone());
        let folder = match &query.scope {
            FolderScope::One(name) => Some(self.folder(address, name).await?.id),
            FolderScope::All => None,
        };
        let mut steps = self.search_in(mailbox);
        let found = find(&mut steps, Scope { mailbox, folder }, index::comparable(query.text.as_str())).await?;
        let total = found.len() as u64;
        let page = page_of(&found, query.page).to_vec();
        let hits = move |connection: &Connection| {
            // Skip messages that were removed since they were found.
            let hits = page.iter().map(|found| hit(connection, found, &query.text));
            let hits = hits.filter(|hit| !matches!(hit, Err(MessageStoreError::NoSuchMessage)));
            Ok(Listed { total, items: hits.collect::<Result<_, _>>()? })
        };
        steps.step(hits).await
    }
}

/// Returns all entries whose text contains `wanted`, newest first: by UID within a folder, by date across
/// folders. Other searches run between the steps.
async fn find(steps: &mut Steps, scope: Scope, wanted: String) -> Result<Vec<Found>, MessageStoreError> {
    let is_short = wanted.chars().count() < TRIGRAM;
    let sql = if is_short { ALL } else { UNINDEXED };
    let (mut found, mut after) = (Vec::new(), Some((0, 0)));
    while let Some(from) = after {
        let wanted = wanted.clone();
        let step = move |connection: &Connection| read_texts(connection, scope, from, &wanted, sql);
        let (some, next) = steps.step(step).await?;
        found.extend(some);
        after = next;
    }
    // The index comes last: a message indexed in the meantime is found there, or was found before.
    if !is_short {
        let step = move |connection: &Connection| Ok(ask_index(connection, scope, &wanted)?);
        found.extend(steps.step(step).await?);
    }
    match scope.folder {
        Some(_) => found.sort_unstable_by_key(|found| std::cmp::Reverse(found.uid)),
        None => found.sort_unstable_by(|a, b| b.cmp(a)),
    }
    // A message may be found both ways if it was indexed in between.
    found.dedup();
    Ok(found)
}

fn page_of(found: &[Found], page: Page) -> &[Found] {
    let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX).min(found.len());
    let rest = &found[offset..];
    &rest[..rest.len().min(page.limit() as usize)]
}

fn ask_index(connection: &Connection, scope: Scope, wanted: &str) -> Result<Vec<Found>, StoreError> {
    // CROSS JOIN fixes the order: first the index, then the entries of its matches.
    let sql = "SELECT e.internal_date, e.folder_id, e.uid, e.message_id FROM drop_fts
            CROSS JOIN drop_entries e ON e.message_id = drop_fts.rowid
            CROSS JOIN drop_folders f ON f.id = e.folder_id
        WHERE drop_fts MATCH ?3 AND f.mailbox_id = ?1 AND (?2 IS NULL OR f.id = ?2)";
    // The `owners` column restricts the match to this mailbox inside the index; see `migrations/`.
    let question = format!("owners : {} AND words : {}", phrase(&index::owner_word(scope.mailbox)), phrase(wanted));
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![scope.mailbox, scope.folder, question], read_found)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Quotes a text for FTS5, where only the quote character is special.
fn phrase(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Position in the order of a statement; a step starts after it.
type Place = (i64, i64);

/// All entries of the folders, by folder and UID.
const ALL: &str = "SELECT e.internal_date, e.folder_id, e.uid, e.message_id, t.text, e.folder_id, e.uid, e.size
    FROM drop_folders f
        CROSS JOIN drop_entries e ON e.folder_id = f.id
        LEFT JOIN drop_texts t ON t.message_id = e.message_id
    WHERE f.mailbox_id = ?1 AND (?2 IS NULL OR f.id = ?2) AND f.id >= ?3 AND (e.folder_id, e.uid) > (?3, ?4)
    ORDER BY f.id, e.uid";

/// The entries that are not indexed, by message.
const UNINDEXED: &str = "SELECT e.internal_date, e.folder_id, e.uid, e.message_id, t.text, u.message_id, 0, e.size
    FROM drop_unindexed u
        CROSS JOIN drop_entries e ON e.message_id = u.message_id
        CROSS JOIN drop_folders f ON f.id = e.folder_id
        LEFT JOIN drop_texts t ON t.message_id = e.message_id
    WHERE f.mailbox_id = ?1 AND (?2 IS NULL OR f.id = ?2) AND u.message_id > ?3 AND ?4 = 0
    ORDER BY u.message_id";

/// Runs one step. Returns the matches and the position of the next step.
fn read_texts(
    connection: &Connection,
    scope: Scope,
    after: Place,
    wanted: &str,
    sql: &'static str,
) -> Result<(Vec<Found>, Option<Place>), MessageStoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![scope.mailbox, scope.folder, after.0, after.1])?;
    let (mut found, mut share, mut last) = (Vec::new(), Share::default(), None);
    while let Some(row) = rows.next()? {
        let (entry, place) = (read_found(row)?, (row.get(5)?, row.get(6)?));
        // Entries of one message share a position and must stay in one step.
        if let Some((last, false)) = last
            && last != place
        {
            return Ok((found, Some(last)));
        }
        let text = row.get_ref(4)?.as_str_or_null().map_err(|_| damaged("a text"))?;
        let (matches, bytes) = match text {
            Some(text) => (index::comparable(text).contains(wanted), text.len() as u64),
            None => (index::comparable(&index::text_of(connection, entry.content)?).contains(wanted), row.get(7)?),
        };
        if matches {
            found.push(entry);
        }
        last = Some((place, share.takes(bytes)));
    }
    Ok((found, None))
}

fn read_found(row: &Row<'_>) -> rusqlite::Result<Found> {
    Ok(Found { internal_date: row.get(0)?, folder: row.get(1)?, uid: row.get(2)?, content: row.get(3)? })
}

/// Returns the details of a hit. Called only for the requested page, since the snippet needs the text.
fn hit(connection: &Connection, found: &Found, text: &SearchText) -> Result<SearchHit, MessageStoreError> {
    let sql = "SELECT m.from_name, m.from_email, m.subject, m.date, f.name, t.text FROM drop_messages m
            JOIN drop_folders f ON f.id = ?2 LEFT JOIN drop_texts t ON t.message_id = m.id
        WHERE m.id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![found.content, found.folder])?;
    let row = rows.next()?.ok_or(MessageStoreError::NoSuchMessage)?;
    let snippet = match row.get_ref(5)?.as_str_or_null().map_err(|_| damaged("a text"))? {
        Some(searched) => mime::snippet(searched, text),
        None => mime::snippet(&index::text_of(connection, found.content)?, text),
    };
    let folder: String = row.get(4)?;
    Ok(SearchHit {
        uid: found.uid,
        folder: folder.parse::<FolderName>().map_err(|_| damaged("a folder's name"))?,
        from: Correspondent { name: row.get(0)?, email: row.get(1)? },
        subject: row.get(2)?,
        date: Timestamp::from_millis(row.get(3)?),
        snippet,
    })
}
