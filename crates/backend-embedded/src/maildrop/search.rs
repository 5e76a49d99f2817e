//! Substring search: the index for what is indexed, the texts themselves for the rest.

use mailapi_backend::mime;
use mailapi_backend::{Correspondent, FolderScope, SearchHit, SearchQuery, SearchText};
use mailapi_model::{EmailAddress, FolderName, Listed, Page, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, Row, params};

use super::id::{ContentId, FolderId, MailboxId};
use super::{Maildrop, MaildropError, damaged, folder, index};

/// Fewer characters than these the index cannot answer.
const TRIGRAM: usize = 3;

/// The folders that a search looks into.
#[derive(Debug, Clone, Copy)]
struct Scope {
    mailbox: MailboxId,
    /// None means all of the mailbox.
    folder: Option<FolderId>,
}

/// An entry that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    // The order of these fields is the order of a search through all folders, turned round: newest first.
    internal_date: i64,
    folder: FolderId,
    uid: u32,
    content: ContentId,
}

impl Maildrop {
    /// The messages of a folder that contain a text, whatever its case, in subject, from, to, cc or the text of the
    /// body; their UIDs, ascending.
    ///
    /// # Errors
    /// [`MaildropError::NoSuchFolder`].
    pub async fn search_text(&self, folder: FolderId, text: &str) -> Result<Vec<u32>, MaildropError> {
        let wanted = index::comparable(text);
        let mailbox = self.folder_now(folder).await?.mailbox;
        self.search_in(mailbox, move |connection| {
            let found = find(connection, Scope { mailbox, folder: Some(folder) }, &wanted)?;
            Ok(found.into_iter().rev().map(|found| found.uid).collect())
        })
        .await
    }

    pub(crate) async fn find_text(
        &self,
        address: &EmailAddress,
        query: &SearchQuery,
    ) -> Result<Listed<SearchHit>, MaildropError> {
        let (mailbox, query) = (self.mailbox(address).await?, query.clone());
        self.search_in(mailbox, move |connection| {
            let folder = match &query.scope {
                FolderScope::One(name) => Some(folder::expect(connection, mailbox, name)?.id),
                FolderScope::All => None,
            };
            let wanted = index::comparable(query.text.as_str());
            let found = find(connection, Scope { mailbox, folder }, &wanted)?;
            let items = page_of(&found, query.page).iter().map(|found| hit(connection, found, &query.text));
            Ok(Listed { total: found.len() as u64, items: items.collect::<Result<_, _>>()? })
        })
        .await
    }
}

fn page_of(found: &[Found], page: Page) -> &[Found] {
    let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX).min(found.len());
    let rest = &found[offset..];
    &rest[..rest.len().min(page.limit() as usize)]
}

/// All entries whose text contains `wanted`, newest first: by UID within one folder, by date across folders.
fn find(connection: &Connection, scope: Scope, wanted: &str) -> Result<Vec<Found>, MaildropError> {
    let mut found = if wanted.chars().count() < TRIGRAM {
        read_texts(connection, scope, wanted, ALL)?
    } else {
        let mut found = ask_index(connection, scope, wanted)?;
        found.extend(read_texts(connection, scope, wanted, UNINDEXED)?);
        found
    };
    match scope.folder {
        Some(_) => found.sort_unstable_by_key(|found| std::cmp::Reverse(found.uid)),
        None => found.sort_unstable_by(|a, b| b.cmp(a)),
    }
    Ok(found)
}

fn ask_index(connection: &Connection, scope: Scope, wanted: &str) -> Result<Vec<Found>, StoreError> {
    // CROSS JOIN keeps the order: the index first, then the entries of what it names.
    let sql = "SELECT e.internal_date, e.folder_id, e.uid, e.message_id FROM drop_fts
            CROSS JOIN drop_entries e ON e.message_id = drop_fts.rowid
            CROSS JOIN drop_folders f ON f.id = e.folder_id
        WHERE drop_fts MATCH ?3 AND f.mailbox_id = ?1 AND (?2 IS NULL OR f.id = ?2)";
    // A search through a mailbox skips what other mailboxes hold; see `owners` in the tables.
    let question = format!("owners : {} AND words : {}", phrase(&index::owner_word(scope.mailbox)), phrase(wanted));
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![scope.mailbox, scope.folder, question], read_found)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A text as a string of the query language of FTS5, in which only the quote has a meaning.
fn phrase(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Every entry of the folders.
const ALL: &str = "SELECT e.internal_date, e.folder_id, e.uid, e.message_id, t.text FROM drop_folders f
        CROSS JOIN drop_entries e ON e.folder_id = f.id
        LEFT JOIN drop_texts t ON t.message_id = e.message_id
    WHERE f.mailbox_id = ?1 AND (?2 IS NULL OR f.id = ?2)";

/// The entries that the index does not know.
const UNINDEXED: &str = "SELECT e.internal_date, e.folder_id, e.uid, e.message_id, t.text FROM drop_unindexed u
        CROSS JOIN drop_entries e ON e.message_id = u.message_id
        CROSS JOIN drop_folders f ON f.id = e.folder_id
        LEFT JOIN drop_texts t ON t.message_id = e.message_id
    WHERE f.mailbox_id = ?1 AND (?2 IS NULL OR f.id = ?2)";

fn read_texts(
    connection: &Connection,
    scope: Scope,
    wanted: &str,
    sql: &'static str,
) -> Result<Vec<Found>, MaildropError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![scope.mailbox, scope.folder])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let entry = read_found(row)?;
        let text = row.get_ref(4)?.as_str_or_null().map_err(|_| damaged("a text"))?;
        let matches = match text {
            Some(text) => index::comparable(text).contains(wanted),
            None => index::comparable(&index::text_of(connection, entry.content)?).contains(wanted),
        };
        if matches {
            found.push(entry);
        }
    }
    Ok(found)
}

fn read_found(row: &Row<'_>) -> rusqlite::Result<Found> {
    Ok(Found { internal_date: row.get(0)?, folder: row.get(1)?, uid: row.get(2)?, content: row.get(3)? })
}

/// What a hit shows; only for those of the page, since the excerpt needs the text.
fn hit(connection: &Connection, found: &Found, text: &SearchText) -> Result<SearchHit, MaildropError> {
    let sql = "SELECT m.from_name, m.from_email, m.subject, m.date, f.name, t.text FROM drop_messages m
            JOIN drop_folders f ON f.id = ?2 LEFT JOIN drop_texts t ON t.message_id = m.id
        WHERE m.id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![found.content, found.folder])?;
    let row = rows.next()?.ok_or(MaildropError::NoSuchMessage)?;
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
