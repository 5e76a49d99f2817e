//! The tables of one mailbox's index.

use mailapi_backend::Correspondent;
use mailapi_backend::mime::comparable;
use mailapi_model::{EmailAddress, FolderName, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::IndexError;
use super::indexed_folder::{FolderId, IndexedFolder};

const TABLES: &str = include_str!("mailbox.sql");
/// The version of the tables and of the text folding. An index with another version is rebuilt.
const FORM: i64 = 3;

/// The indexed data of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) uid: u32,
    /// Time of arrival, in seconds since 1970.
    pub(crate) arrived: i64,
    /// The Date header, or the time of arrival.
    pub(crate) date: Timestamp,
    pub(crate) from: Correspondent,
    pub(crate) subject: String,
    /// The result of [`mailapi_backend::mime::SearchableText::joined`].
    pub(crate) text: String,
}

impl Entry {
    /// Returns the entry of a message without readable text, which no search finds.
    pub(crate) fn without_text(uid: u32) -> Self {
        let (from, subject, text) = Default::default();
        Self { uid, arrived: 0, date: Timestamp::from_seconds(0), from, subject, text }
    }
}

/// Creates the tables in a new file. In an old one, checks the version, the owner and the message counts.
pub(super) fn prepare(connection: &mut Connection, mailbox: &EmailAddress) -> Result<(), IndexError> {
    let form: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if form == 0 {
        let transaction = begin(connection)?;
        transaction.execute_batch(TABLES)?;
        transaction.execute("INSERT INTO about (mailbox) VALUES (?1)", params![mailbox.as_str()])?;
        transaction.pragma_update(None, "user_version", FORM)?;
        return Ok(transaction.commit()?);
    }
    if form != FORM {
        return Err(IndexError::Damaged("it has another format".to_owned()));
    }
    let owner: String = connection.query_row("SELECT mailbox FROM about", [], |row| row.get(0))?;
    if owner != mailbox.as_str() {
        return Err(IndexError::Damaged("it belongs to another mailbox".to_owned()));
    }
    let sql = "SELECT count(*) FROM folders f
        WHERE f.messages <> (SELECT count(*) FROM messages m WHERE m.id BETWEEN (f.id << 32) AND (f.id << 32) + 4294967295)";
    let wrong: u64 = connection.query_row(sql, [], |row| row.get(0))?;
    if wrong > 0 {
        return Err(IndexError::Damaged("messages are missing".to_owned()));
    }
    Ok(())
}

pub(super) fn folders(connection: &Connection) -> Result<Vec<(FolderName, IndexedFolder)>, IndexError> {
    let sql = "SELECT name, id, uid_validity, covered, messages FROM folders";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let (name, id): (String, i64) = (row.get(0)?, row.get(1)?);
        let (uid_validity, covered, messages) = (row.get(2)?, row.get(3)?, row.get(4)?);
        Ok((name, IndexedFolder { id: FolderId(id), uid_validity, covered, messages }))
    })?;
    let mut folders = Vec::new();
    for row in rows {
        let (name, state) = row?;
        let name = name.parse().map_err(|_| IndexError::Damaged("the name of a folder is invalid".to_owned()))?;
        folders.push((name, state));
    }
    Ok(folders)
}

/// Returns the state of a folder if its UIDVALIDITY is unchanged. Otherwise creates a new state, and drops the old
/// folder.
pub(super) fn put_folder(
    connection: &mut Connection,
    name: &FolderName,
    uid_validity: u32,
) -> Result<IndexedFolder, IndexError> {
    let transaction = begin(connection)?;
    let known = folders(&transaction)?.into_iter().find(|(known, _)| known == name).map(|(_, state)| state);
    if let Some(state) = known {
        if state.uid_validity == uid_validity {
            return Ok(state);
        }
        drop_folder(&transaction, name)?;
    }
    let sql = "INSERT INTO folders (name, uid_validity, covered, messages) VALUES (?1, ?2, 0, 0)";
    transaction.execute(sql, params![name.as_str(), uid_validity])?;
    let id = FolderId(transaction.last_insert_rowid());
    transaction.commit()?;
    Ok(IndexedFolder { id, uid_validity, covered: 0, messages: 0 })
}

/// Drops folders: searches no longer find them. [`collect_garbage`] removes their messages.
pub(super) fn drop_folders(connection: &mut Connection, names: &[FolderName]) -> Result<(), IndexError> {
    let transaction = begin(connection)?;
    names.iter().try_for_each(|name| drop_folder(&transaction, name))?;
    Ok(transaction.commit()?)
}

fn drop_folder(transaction: &Transaction<'_>, name: &FolderName) -> Result<(), IndexError> {
    transaction
        .execute("INSERT INTO gone_folders (id) SELECT id FROM folders WHERE name = ?1", params![name.as_str()])?;
    transaction.execute("DELETE FROM folders WHERE name = ?1", params![name.as_str()])?;
    Ok(())
}

/// Adds messages of a folder, and stores the UID up to which it is indexed. Returns the new state.
pub(super) fn put(
    connection: &mut Connection,
    state: IndexedFolder,
    entries: &[Entry],
    covered: u32,
    max_indexed: usize,
) -> Result<IndexedFolder, IndexError> {
    let transaction = begin(connection)?;
    let mut added = 0;
    for entry in entries {
        added += u64::from(put_one(&transaction, state.id.message(entry.uid), entry, max_indexed)?);
    }
    let sql = "UPDATE folders SET covered = ?2, messages = messages + ?3 WHERE id = ?1
        RETURNING covered, messages";
    let row = params![state.id.0, covered, added];
    let state = transaction
        .prepare_cached(sql)?
        .query_row(row, |row| Ok(IndexedFolder { covered: row.get(0)?, messages: row.get(1)?, ..state }))?;
    transaction.commit()?;
    Ok(state)
}

/// Adds one message. Returns false if it already exists.
fn put_one(transaction: &Transaction<'_>, id: i64, entry: &Entry, max_indexed: usize) -> Result<bool, IndexError> {
    let too_long = entry.text.len() > max_indexed;
    // A batch that is repeated after an interruption finds its messages already stored.
    let sql = "INSERT OR IGNORE INTO messages (id, arrived, too_long) VALUES (?1, ?2, ?3)";
    if transaction.prepare_cached(sql)?.execute(params![id, entry.arrived, too_long])? == 0 {
        return Ok(false);
    }
    let sql = "INSERT INTO texts (id, date, from_name, from_email, subject, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let (date, from) = (entry.date.as_millis(), &entry.from);
    let row = params![id, date, from.name, from.email, entry.subject, entry.text];
    transaction.prepare_cached(sql)?.execute(row)?;
    if !too_long {
        let sql = "INSERT INTO fts (rowid, words) VALUES (?1, ?2)";
        transaction.prepare_cached(sql)?.execute(params![id, comparable(&entry.text)])?;
    }
    Ok(true)
}

/// Removes messages of a folder, and returns its new state.
pub(super) fn remove(
    connection: &mut Connection,
    state: IndexedFolder,
    uids: &[u32],
) -> Result<IndexedFolder, IndexError> {
    let transaction = begin(connection)?;
    let mut removed = 0;
    for &uid in uids {
        removed += u64::from(remove_one(&transaction, state.id.message(uid))?);
    }
    let sql = "UPDATE folders SET messages = messages - ?2 WHERE id = ?1 RETURNING covered, messages";
    let row = params![state.id.0, removed];
    let state = transaction
        .prepare_cached(sql)?
        .query_row(row, |row| Ok(IndexedFolder { covered: row.get(0)?, messages: row.get(1)?, ..state }))?;
    transaction.commit()?;
    Ok(state)
}

fn remove_one(transaction: &Transaction<'_>, id: i64) -> Result<bool, IndexError> {
    let sql = "DELETE FROM messages WHERE id = ?1 RETURNING too_long";
    let was_too_long: Option<bool> =
        transaction.prepare_cached(sql)?.query_row(params![id], |row| row.get(0)).optional()?;
    let Some(was_too_long) = was_too_long else { return Ok(false) };
    transaction.prepare_cached("DELETE FROM texts WHERE id = ?1")?.execute(params![id])?;
    // A text that is too long has no row in the full-text index.
    if !was_too_long {
        transaction.prepare_cached("DELETE FROM fts WHERE rowid = ?1")?.execute(params![id])?;
    }
    Ok(true)
}

/// Returns the UIDs of the folder's messages in the index, ascending.
pub(super) fn uids(connection: &Connection, folder: FolderId) -> Result<Vec<u32>, IndexError> {
    let (first, last) = folder.messages();
    let mut statement = connection.prepare_cached("SELECT id FROM messages WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?;
    let rows = statement.query_map(params![first, last], |row| row.get(0))?;
    let uids: Result<Vec<u32>, _> = rows.map(|id| id.map(|id| FolderId::of_message(id).1)).collect();
    Ok(uids?)
}

/// Returns the ids of the first messages of a folder.
fn first_messages(connection: &Connection, folder: FolderId, limit: usize) -> Result<Vec<i64>, IndexError> {
    let (first, last) = folder.messages();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = "SELECT id FROM messages WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![first, last, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Removes some messages of dropped folders, and returns how many. Zero means that none is left.
pub(super) fn collect_garbage(connection: &mut Connection, limit: usize) -> Result<usize, IndexError> {
    let gone = "SELECT id FROM gone_folders LIMIT 1";
    let Some(folder) = connection.prepare_cached(gone)?.query_row([], |row| row.get(0)).optional()? else {
        return Ok(0);
    };
    let folder = FolderId(folder);
    let transaction = begin(connection)?;
    // One more than the limit shows whether this is the last step.
    let mut collected = first_messages(&transaction, folder, limit.saturating_add(1))?;
    let is_last = collected.len() <= limit;
    collected.truncate(limit);
    for &id in &collected {
        remove_one(&transaction, id)?;
    }
    if is_last {
        transaction.execute("DELETE FROM gone_folders WHERE id = ?1", params![folder.0])?;
    }
    transaction.commit()?;
    // At least 1: zero would report that no dropped folder is left.
    Ok(collected.len().max(1))
}

fn begin(connection: &mut Connection) -> Result<Transaction<'_>, IndexError> {
    Ok(connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_whose_texts_were_folded_otherwise_is_made_again() {
        let mut connection = Connection::open_in_memory().unwrap();
        let mailbox = "bob@example.org".parse().unwrap();
        prepare(&mut connection, &mailbox).unwrap();
        prepare(&mut connection, &mailbox).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        assert!(matches!(prepare(&mut connection, &mailbox), Err(IndexError::Damaged(_))));
    }

    #[test]
    fn removed_rows_are_collected_in_steps() {
        let mut connection = Connection::open_in_memory().unwrap();
        prepare(&mut connection, &"bob@example.org".parse().unwrap()).unwrap();
        let name = FolderName::inbox();
        let state = put_folder(&mut connection, &name, 7).unwrap();
        let entries: Vec<Entry> = (1..=4).map(Entry::without_text).collect();
        put(&mut connection, state, &entries, 4, 1_000).unwrap();
        drop_folders(&mut connection, &[name]).unwrap();
        assert_eq!([1, 2, 3].map(|_| collect_garbage(&mut connection, 2).unwrap()), [2, 2, 0]);
        assert!(uids(&connection, state.id).unwrap().is_empty());
    }
}
