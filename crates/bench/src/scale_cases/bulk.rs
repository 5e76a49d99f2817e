//! Bulk copies of rows that the product has written itself, in a database that no server has open.
//!
//! As in the disk floor only the keys differ, and triggers run as usual. This prepares in a minute what would
//! take an hour through the product's listeners. Each case then verifies the result through the API.

use std::path::Path;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags, params};

use crate::outcome::{Failure, Outcome};
use crate::random::Random;

/// Fast but not durable: an interrupted run must start again. The cache is 1 GiB.
const PRAGMAS: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -1048576;
    PRAGMA temp_store = MEMORY; PRAGMA locking_mode = EXCLUSIVE;";
const SEED: u64 = 77;

/// A database to fill.
pub(super) struct Bulk {
    pub(super) connection: Connection,
}

/// Rows of a table to copy, and new values for some of their columns. `?1` is the number of the copy, from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copies<'a> {
    pub(super) table: &'a str,
    pub(super) rows: &'a str,
    pub(super) changed: &'a [(&'a str, String)],
}

impl Bulk {
    /// Opens the database of a stopped server.
    pub(super) fn open(file: &Path) -> Outcome<Self> {
        let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.execute_batch(PRAGMAS)?;
        let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_UTF8;
        connection.create_scalar_function("uuid_of", 1, flags, |context| Ok(uuid(context.get::<i64>(0)?)))?;
        connection.create_scalar_function("bytes_of", 2, flags, |context| {
            let count = usize::try_from(context.get::<i64>(1)?).unwrap_or_default();
            Ok(Random::new(SEED ^ context.get::<i64>(0)?.unsigned_abs()).bytes(count))
        })?;
        Ok(Self { connection })
    }

    /// Queries one number.
    pub(super) fn number(&self, sql: &str) -> Outcome<i64> {
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// Writes copies `first` to `last` of the rows of some tables, in order and in one transaction.
    pub(super) fn copy(&self, first: i64, last: i64, tables: &[Copies<'_>]) -> Outcome {
        let statements = tables.iter().map(|copies| self.statement(copies)).collect::<Outcome<Vec<_>>>()?;
        self.connection.execute_batch("BEGIN")?;
        for number in first..=last {
            for sql in &statements {
                self.connection.prepare_cached(sql)?.execute(params![number])?;
            }
        }
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn statement(&self, Copies { table, rows, changed }: &Copies<'_>) -> Outcome<String> {
        let sql = format!("SELECT * FROM {table} LIMIT 0");
        let names: Vec<String> = self.connection.prepare(&sql)?.column_names().map(str::to_owned).collect();
        if let Some((missing, _)) = changed.iter().find(|(name, _)| !names.iter().any(|column| column == name)) {
            return Err(Failure::new(format!("{table} has no column {missing}")));
        }
        let value = |name: &String| match changed.iter().find(|(column, _)| column == name) {
            Some((_, value)) => value.clone(),
            None => name.clone(),
        };
        let values: Vec<String> = names.iter().map(value).collect();
        Ok(format!("INSERT INTO {table} ({}) SELECT {} FROM {table} WHERE {rows}", names.join(", "), values.join(", ")))
    }
}

/// A UUID of version 4 (RFC 9562 section 5.4), derived from a number.
pub(super) fn uuid(number: i64) -> String {
    let mut random = Random::new(SEED ^ number.unsigned_abs());
    let (one, other) = (random.next(), random.next());
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        one >> 32,
        one & 0xffff,
        (one >> 16) & 0xfff,
        other >> 52,
        other & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_column_that_is_not_there_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some.db");
        Connection::open(&file).unwrap().execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)").unwrap();
        let bulk = Bulk::open(&file).unwrap();
        let changed = [("uid", "1".to_owned())];
        assert!(bulk.copy(1, 1, &[Copies { table: "t", rows: "TRUE", changed: &changed }]).is_err());
    }

    #[test]
    fn copies_differ_in_the_columns_that_were_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some.db");
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT, y TEXT); INSERT INTO t VALUES (1, 'a', 'b')";
        Connection::open(&file).unwrap().execute_batch(sql).unwrap();
        let bulk = Bulk::open(&file).unwrap();
        let changed = [("id", "id + ?1".to_owned()), ("x", "uuid_of(id + ?1)".to_owned())];
        bulk.copy(1, 9, &[Copies { table: "t", rows: "id = 1", changed: &changed }]).unwrap();
        assert_eq!(bulk.number("SELECT COUNT(DISTINCT x) FROM t WHERE y = 'b'").unwrap(), 10);
        assert_eq!(uuid(1), uuid(1));
        assert_eq!(uuid(1).len(), 36);
    }
}
