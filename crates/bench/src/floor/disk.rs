//! The disk floor: one thread writes the rows of messages repeatedly. Each durable transaction contains as many
//! messages as the case has requests in flight.
//!
//! The rows are copies of rows that the product has written for one message, in a copy of its database. Tables,
//! indexes, triggers and lengths are the same; only the keys differ. Data derived later (search index,
//! statistics) is left out.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use crate::load::{Load, Sample};
use crate::outcome::{Failure, Outcome, same};
use crate::process::Process;
use crate::random::Random;

/// As in the product's writer: write-ahead log, a flush per commit, a cache of 4 MiB.
const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
    PRAGMA wal_autocheckpoint = 2000; PRAGMA cache_size = -4096; PRAGMA temp_store = MEMORY;";

/// Maximum number of pieces per message in the database: `drop_chunks.key` is message * this + piece.
const PIECES: i64 = 1 << 16;

/// A key that differs between messages.
#[derive(Debug, Clone, Copy)]
enum Key {
    /// The message identifier, a UUID as text.
    Uuid,
    /// The row id of the sent message.
    Sent,
    /// The row id of the stored message.
    Content,
    /// The key of the only piece of the stored message.
    Piece,
    /// The UID in the folder.
    Uid,
    /// Assigned by the database.
    Given,
    /// A reference count, which the trigger of the entry increments.
    Zero,
}

/// Tables with their key columns.
type Tables = &'static [(&'static str, &'static [(&'static str, Key)])];

/// Rows of a message received from outside.
const INBOUND: Tables = &[
    ("drop_messages", &[("id", Key::Content), ("refs", Key::Zero)]),
    ("drop_chunks", &[("key", Key::Piece)]),
    ("drop_entries", &[("message_id", Key::Content), ("uid", Key::Uid), ("modseq", Key::Uid)]),
    ("delivery_events", &[("id", Key::Given)]),
];

/// Rows of a message sent through the API to one local mailbox.
const SENT: Tables = &[
    ("sent_messages", &[("id", Key::Sent), ("message_id", Key::Uuid)]),
    ("sent_recipients", &[("sent_id", Key::Sent)]),
    ("drop_accepted", &[("message_uuid", Key::Uuid)]),
    ("drop_messages", &[("id", Key::Content), ("refs", Key::Zero)]),
    ("drop_chunks", &[("key", Key::Piece)]),
    ("drop_entries", &[("message_id", Key::Content), ("uid", Key::Uid), ("modseq", Key::Uid)]),
    ("delivery_events", &[("id", Key::Given), ("message_id", Key::Uuid)]),
];

/// The kind of rows to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Rows of a message sent through the API.
    Sent,
    /// Rows of a received message.
    Inbound,
}

/// A row of the template, and the statement that inserts a copy.
#[derive(Debug)]
struct Insert {
    sql: String,
    values: Vec<Value>,
    keys: Vec<(usize, Key)>,
}

/// The database of the floor.
pub(crate) struct DiskFloor {
    connection: Connection,
    inserts: Vec<Insert>,
    group: usize,
    /// The number of the last message; far above those of the template.
    last: i64,
    first: i64,
}

impl DiskFloor {
    /// Opens a database with the rows of exactly one message, sent to one mailbox and delivered. Each transaction
    /// writes `group` messages.
    pub(crate) fn open(file: &Path, rows: Rows, group: usize) -> Outcome<Self> {
        let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.execute_batch(PRAGMAS)?;
        let tables = if rows == Rows::Sent { SENT } else { INBOUND };
        let inserts =
            tables.iter().map(|(table, keys)| template(&connection, table, keys)).collect::<Outcome<Vec<_>>>()?;
        // Continue after the messages of an earlier run on the same database.
        let sql = "SELECT MAX(1000000, (SELECT MAX(id) FROM drop_messages))";
        let first = connection.query_row(sql, [], |row| row.get(0))?;
        Ok(Self { connection, inserts, group, last: first, first })
    }

    /// Asserts that the tables contain all written messages.
    pub(crate) fn check(&self) -> Outcome {
        let sql = "SELECT COUNT(*) FROM drop_entries WHERE message_id > ?1";
        let rows: i64 = self.connection.query_row(sql, [self.first], |row| row.get(0))?;
        same("messages that the disk floor wrote", rows, self.last - self.first)
    }

    fn commit_group(&mut self) -> Outcome {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..self.group {
            self.last += 1;
            let number = self.last;
            for insert in &mut self.inserts {
                for (column, key) in &insert.keys {
                    insert.values[*column] = key_value(*key, number);
                }
                self.connection.prepare_cached(&insert.sql)?.execute(params_from_iter(&insert.values))?;
            }
        }
        let sql = "UPDATE drop_folders SET uid_next = ?1, highest_modseq = ?1 WHERE id = \
                   (SELECT folder_id FROM drop_entries LIMIT 1)";
        self.connection.prepare_cached(sql)?.execute([self.last + 1])?;
        Ok(self.connection.execute_batch("COMMIT")?)
    }
}

impl Load for DiskFloor {
    async fn run(&mut self, window: Duration) -> Outcome<Sample> {
        let (cpu_before, start) = (Process::Own.cpu()?, Instant::now());
        let mut latencies = Vec::new();
        let mut before = start;
        while before < start + window {
            self.commit_group()?;
            let after = Instant::now();
            latencies.extend(std::iter::repeat_n(after - before, self.group));
            before = after;
        }
        let (elapsed, cpu) = (start.elapsed(), Process::Own.cpu()? - cpu_before);
        latencies.sort_unstable();
        // There is no load generator: the writer runs in this process.
        Ok(Sample { latencies, elapsed, cpu, client_cpu: Duration::ZERO })
    }
}

fn template(connection: &Connection, table: &str, keys: &[(&str, Key)]) -> Outcome<Insert> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}"))?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([])?;
    let row = rows.next()?.ok_or_else(|| Failure::new(format!("{table} holds no row to be copied")))?;
    let values = (0..columns.len()).map(|column| row.get(column)).collect::<Result<Vec<Value>, _>>()?;
    if rows.next()?.is_some() {
        return Err(Failure::new(format!("{table} holds more than one row to be copied")));
    }
    let place = |name: &str| columns.iter().position(|column| column == name);
    let keys = keys.iter().map(|(name, key)| {
        let column = place(name).ok_or_else(|| Failure::new(format!("{table} has no column {name}")))?;
        Ok((column, *key))
    });
    let marks: Vec<String> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    let sql = format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), marks.join(", "));
    Ok(Insert { sql, values, keys: keys.collect::<Outcome<_>>()? })
}

fn key_value(key: Key, number: i64) -> Value {
    match key {
        // As long as a real one, and as random: index pages are hit in the same pattern.
        Key::Uuid => {
            let random = Random::new(number.unsigned_abs()).next();
            Value::Text(format!("{:08x}-{:04x}-4000-8000-{number:012x}", random >> 32, random & 0xffff))
        }
        Key::Sent | Key::Content | Key::Uid => Value::Integer(number),
        Key::Piece => Value::Integer(number * PIECES),
        Key::Given => Value::Null,
        Key::Zero => Value::Integer(0),
    }
}
