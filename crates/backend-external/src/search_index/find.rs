//! Finds texts: by trigrams in the full-text index, and by reading texts that are not in it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use mailapi_backend::mime::{comparable, snippet};
use mailapi_backend::{Correspondent, SearchHit, SearchQuery, SearchText};
use mailapi_model::{FolderName, Listed, Page, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::error::IndexError;
use super::indexed_folder::FolderId;

/// The full-text index cannot find fewer characters than this.
const TRIGRAM: usize = 3;

/// A folder to search.
pub(crate) type Searched = (FolderId, Arc<FolderName>);

/// An entry that was found. Smaller entries are shown first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    /// Equal for all entries if a single folder is searched.
    arrived: Reverse<i64>,
    folder: Arc<FolderName>,
    uid: Reverse<u32>,
    id: i64,
}

/// Searches these folders. In a single folder the highest UID comes first; in several, the most recent arrival. A
/// read transaction gives all statements the same state.
pub(super) fn search(
    connection: &mut Connection,
    folders: &[Searched],
    query: &SearchQuery,
    give_up: Instant,
) -> Result<Listed<SearchHit>, IndexError> {
    let state = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let collected = find(&state, folders, query, give_up)?;
    let total = collected.total;
    let offset = usize::try_from(query.page.offset()).unwrap_or(usize::MAX);
    let mut items = Vec::new();
    for found in collected.first.into_sorted_vec().iter().skip(offset) {
        items.extend(hit(&state, found, &query.text)?);
    }
    Ok(Listed { total, items })
}

/// Returns the number of hits up to the end of a page.
fn upto(page: Page) -> usize {
    usize::try_from(page.offset().saturating_add(u64::from(page.limit()))).unwrap_or(usize::MAX)
}

fn find(
    connection: &Connection,
    folders: &[Searched],
    query: &SearchQuery,
    give_up: Instant,
) -> Result<Collected, IndexError> {
    let wanted = comparable(query.text.as_str());
    let folders = folders.iter().cloned().collect();
    let mut collected = Collected { folders, first: BinaryHeap::new(), room: upto(query.page), total: 0, give_up };
    // Too short for trigrams, so read every text.
    if wanted.chars().count() < TRIGRAM {
        collected.read_texts(connection, ALL, &wanted)?;
    } else {
        collected.ask_index(connection, &wanted)?;
        collected.read_texts(connection, TOO_LONG, &wanted)?;
    }
    Ok(collected)
}

/// In a single folder the time of arrival is not needed.
const INDEXED_IN_ONE: &str = "SELECT rowid, 0 FROM fts WHERE fts MATCH ?1 AND rowid BETWEEN ?2 AND ?3";

/// CROSS JOIN fixes the order: the full-text index first, then the entries it returns.
const INDEXED: &str = "SELECT fts.rowid, m.arrived FROM fts CROSS JOIN messages m ON m.id = fts.rowid
    WHERE fts MATCH ?1 AND fts.rowid BETWEEN ?2 AND ?3";

const ALL: &str = "SELECT m.id, m.arrived, t.text FROM messages m CROSS JOIN texts t ON t.id = m.id
    WHERE m.id BETWEEN ?1 AND ?2";

const TOO_LONG: &str = "SELECT m.id, m.arrived, t.text FROM messages m CROSS JOIN texts t ON t.id = m.id
    WHERE m.too_long = 1 AND m.id BETWEEN ?1 AND ?2";

struct Collected {
    folders: HashMap<FolderId, Arc<FolderName>>,
    /// The first `room` entries; the last of them is on top of the heap.
    first: BinaryHeap<Found>,
    room: usize,
    /// The number of all entries found.
    total: u64,
    give_up: Instant,
}

impl Collected {
    /// Returns the range of ids that covers all messages of the folders.
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
        // The range may include messages of other folders.
        if let Some(folder) = self.folders.get(&folder) {
            let arrived = Reverse(if self.folders.len() == 1 { 0 } else { arrived });
            let found = Found { arrived, folder: folder.clone(), uid: Reverse(uid), id };
            self.put(found);
        }
        self.check_time()
    }

    fn put(&mut self, found: Found) {
        self.total += 1;
        if self.first.len() < self.room {
            self.first.push(found);
        } else if let Some(mut last) = self.first.peek_mut()
            && found < *last
        {
            *last = found;
        }
    }

    fn check_time(&self) -> Result<(), IndexError> {
        if Instant::now() >= self.give_up { Err(IndexError::TooLong) } else { Ok(()) }
    }
}

/// Quotes a text as an FTS5 string, in which only the quote is special.
fn phrase(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Builds a hit; `None` if its text is gone. Only for the hits of the page, since the excerpt needs the text.
fn hit(connection: &Connection, found: &Found, wanted: &SearchText) -> Result<Option<SearchHit>, IndexError> {
    let sql = "SELECT date, from_name, from_email, subject, text FROM texts WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let hit = statement.query_row(params![found.id], |row| {
        let text: String = row.get(4)?;
        Ok(SearchHit {
            uid: found.uid.0,
            folder: FolderName::clone(&found.folder),
            from: Correspondent { name: row.get(1)?, email: row.get(2)? },
            subject: row.get(3)?,
            date: Timestamp::from_millis(row.get(0)?),
            snippet: snippet(&text, wanted),
        })
    });
    Ok(hit.optional()?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mailapi_backend::FolderScope;
    use proptest::prelude::*;

    use super::*;
    use crate::search_index::tables::{self, Entry};

    fn collected(room: usize) -> Collected {
        let folders = HashMap::new();
        Collected { folders, first: BinaryHeap::new(), room, total: 0, give_up: Instant::now() }
    }

    proptest! {
        #[test]
        fn the_first_are_kept_and_all_are_counted(
            found in prop::collection::vec((0i64..9, 0u32..9), 0..60), room in 1usize..20,
        ) {
            let folder = Arc::new(FolderName::inbox());
            let mut collected = collected(room);
            for (id, &(arrived, uid)) in (0..).zip(&found) {
                collected.put(Found { arrived: Reverse(arrived), folder: folder.clone(), uid: Reverse(uid), id });
            }
            prop_assert_eq!(collected.total, found.len() as u64);
            let kept: Vec<_> =
                collected.first.into_sorted_vec().iter().map(|one| (one.arrived.0, one.uid.0)).collect();
            let mut sorted = found;
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            sorted.truncate(room);
            prop_assert_eq!(kept, sorted);
        }
    }

    #[test]
    fn a_text_is_found_in_whatever_form_it_was_written() {
        let mut connection = Connection::open_in_memory().unwrap();
        tables::prepare(&mut connection, &"bob@example.org".parse().unwrap()).unwrap();
        let name = FolderName::inbox();
        let state = tables::put_folder(&mut connection, &name, 7).unwrap();
        let entry = |uid, text: &str| Entry { text: text.to_owned(), ..Entry::without_text(uid) };
        let entries = [entry(1, "Mu\u{308}ller"), entry(2, "Müller, Grüße"), entry(3, "Muller")];
        tables::put(&mut connection, state, &entries, 3, 1_000).unwrap();
        let folders = [(state.id, Arc::new(name))];
        for (wanted, uids) in [("MÜLLER", &[2, 1][..]), ("mu\u{308}ller", &[2, 1]), ("ül", &[2, 1]), ("GRÜSSE", &[2])]
        {
            let query = SearchQuery { text: wanted.parse().unwrap(), scope: FolderScope::All, page: Page::new(10, 0) };
            let give_up = Instant::now() + Duration::from_secs(60);
            let found = search(&mut connection, &folders, &query, give_up).unwrap();
            assert_eq!(found.items.iter().map(|hit| hit.uid).collect::<Vec<_>>(), uids, "{wanted}");
        }
    }

    #[test]
    fn a_text_that_is_gone_costs_its_hit_and_nothing_else() {
        let mut connection = Connection::open_in_memory().unwrap();
        tables::prepare(&mut connection, &"bob@example.org".parse().unwrap()).unwrap();
        let name = FolderName::inbox();
        let state = tables::put_folder(&mut connection, &name, 7).unwrap();
        let entry = |uid| Entry { text: "needle".to_owned(), ..Entry::without_text(uid) };
        tables::put(&mut connection, state, &[entry(1), entry(2)], 2, 1_000).unwrap();
        connection.execute("DELETE FROM texts WHERE id = ?1", params![state.id.message(1)]).unwrap();
        let query = SearchQuery { text: "needle".parse().unwrap(), scope: FolderScope::All, page: Page::new(10, 0) };
        let give_up = Instant::now() + Duration::from_secs(60);
        let found = search(&mut connection, &[(state.id, Arc::new(name))], &query, give_up).unwrap();
        assert_eq!(found.items.iter().map(|hit| hit.uid).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_page_far_behind_is_no_overflow() {
        assert_eq!(upto(Page::new(50, u64::MAX)), usize::MAX);
        assert_eq!(upto(Page::new(50, 100)), 150);
    }
}
