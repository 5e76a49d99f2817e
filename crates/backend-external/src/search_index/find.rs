//! Finding texts: by the trigrams of what is indexed, and in the texts themselves for the rest.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use mailapi_backend::mime::{comparable, snippet};
use mailapi_backend::{Correspondent, SearchHit, SearchQuery, SearchText};
use mailapi_model::{FolderName, Listed, Page, Timestamp};
use rusqlite::{Connection, Row, params};

use super::error::IndexError;
use super::folder_state::FolderId;

/// Fewer characters than these the index cannot answer.
const TRIGRAM: usize = 3;

/// A folder that is searched.
pub(crate) type Searched = (FolderId, Arc<FolderName>);

/// An entry that was found.
struct Found {
    id: i64,
    arrived: i64,
    folder: Arc<FolderName>,
    uid: u32,
}

/// Searches these folders: within one, the highest UID comes first; across several, what arrived last.
pub(super) fn search(
    connection: &Connection,
    folders: &[Searched],
    query: &SearchQuery,
    give_up: Instant,
) -> Result<Listed<SearchHit>, IndexError> {
    let found = find(connection, folders, &query.text, give_up)?;
    let page = page_of(&found, query.page);
    let items = page.iter().map(|found| hit(connection, found, &query.text)).collect::<Result<_, _>>()?;
    Ok(Listed { total: found.len() as u64, items })
}

fn page_of(found: &[Found], page: Page) -> &[Found] {
    let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX).min(found.len());
    let rest = &found[offset..];
    &rest[..rest.len().min(page.limit() as usize)]
}

fn find(
    connection: &Connection,
    folders: &[Searched],
    text: &SearchText,
    give_up: Instant,
) -> Result<Vec<Found>, IndexError> {
    let wanted = comparable(text.as_str());
    let mut collected = Collected { folders: folders.iter().cloned().collect(), found: Vec::new(), give_up };
    if wanted.chars().count() < TRIGRAM {
        collected.read_texts(connection, ALL, &wanted)?;
    } else {
        collected.ask_index(connection, &wanted)?;
        collected.read_texts(connection, TOO_LONG, &wanted)?;
    }
    let mut found = collected.found;
    match folders {
        [_] => found.sort_unstable_by_key(|found| Reverse(found.uid)),
        _ => found.sort_unstable_by(|a, b| {
            let order = |found: &Found| (Reverse(found.arrived), found.folder.clone(), Reverse(found.uid));
            order(a).cmp(&order(b))
        }),
    }
    Ok(found)
}

/// Within one folder nobody asks when messages arrived.
const INDEXED_IN_ONE: &str = "SELECT rowid, 0 FROM fts WHERE fts MATCH ?1 AND rowid BETWEEN ?2 AND ?3";

/// CROSS JOIN keeps the order: the index first, then the entries of what it names.
const INDEXED: &str = "SELECT fts.rowid, m.arrived FROM fts CROSS JOIN messages m ON m.id = fts.rowid
    WHERE fts MATCH ?1 AND fts.rowid BETWEEN ?2 AND ?3";

const ALL: &str = "SELECT m.id, m.arrived, t.text FROM messages m CROSS JOIN texts t ON t.id = m.id
    WHERE m.id BETWEEN ?1 AND ?2";

const TOO_LONG: &str = "SELECT m.id, m.arrived, t.text FROM messages m CROSS JOIN texts t ON t.id = m.id
    WHERE m.too_long = 1 AND m.id BETWEEN ?1 AND ?2";

struct Collected {
    folders: HashMap<FolderId, Arc<FolderName>>,
    found: Vec<Found>,
    give_up: Instant,
}

impl Collected {
    /// The numbers between which all messages of the folders lie.
    fn range(&self) -> (i64, i64) {
        let ends = self.folders.keys().map(|folder| folder.messages());
        ends.reduce(|(first, last), (other_first, other_last)| (first.min(other_first), last.max(other_last)))
            .unwrap_or((1, 0))
    }

    fn ask_index(&mut self, connection: &Connection, wanted: &str) -> Result<(), IndexError> {
        let (first, last) = self.range();
        let sql = if self.folders.len() == 1 { INDEXED_IN_ONE } else { INDEXED };
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![phrase(wanted), first, last])?;
        while let Some(row) = rows.next()? {
            self.take(row)?;
        }
        Ok(())
    }

    fn read_texts(&mut self, connection: &Connection, sql: &str, wanted: &str) -> Result<(), IndexError> {
        let (first, last) = self.range();
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![first, last])?;
        while let Some(row) = rows.next()? {
            let text = row.get_ref(2)?.as_str().map_err(|_| IndexError::Damaged("a text".to_owned()))?;
            if comparable(text).contains(wanted) {
                self.take(row)?;
            }
            self.check_time()?;
        }
        Ok(())
    }

    fn take(&mut self, row: &Row<'_>) -> Result<(), IndexError> {
        let (id, arrived) = (row.get(0)?, row.get(1)?);
        let (folder, uid) = FolderId::of_message(id);
        if let Some(folder) = self.folders.get(&folder) {
            self.found.push(Found { id, arrived, folder: folder.clone(), uid });
        }
        self.check_time()
    }

    fn check_time(&self) -> Result<(), IndexError> {
        if Instant::now() >= self.give_up { Err(IndexError::TooLong) } else { Ok(()) }
    }
}

/// A text as a string of the query language of FTS5, in which only the quote has a meaning.
fn phrase(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// What a hit shows; only for those of the page, since the excerpt needs the text.
fn hit(connection: &Connection, found: &Found, wanted: &SearchText) -> Result<SearchHit, IndexError> {
    let sql = "SELECT date, from_name, from_email, subject, text FROM texts WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let hit = statement.query_row(params![found.id], |row| {
        let text: String = row.get(4)?;
        Ok(SearchHit {
            uid: found.uid,
            folder: FolderName::clone(&found.folder),
            from: Correspondent { name: row.get(1)?, email: row.get(2)? },
            subject: row.get(3)?,
            date: Timestamp::from_millis(row.get(0)?),
            snippet: snippet(&text, wanted),
        })
    });
    Ok(hit?)
}
