//! Clients with a sender and a recipient that this server has seen.
//!
//! Strangers make these rows, so each network has a share of those that wait. A known sender keeps its row.

use std::time::Duration;

use mailapi_model::Timestamp;

use crate::StoreError;
use crate::db::{Db, Effect, Stmt, exactly_one, number};

/// Age from which the row of a known sender is written again. Rows are kept for weeks, so most mail writes nothing.
const REFRESHED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The greylist. Each row is a *key*: the hash of a client's network, a sender and a recipient. It waits until the client
/// comes back after the delay; then it has passed.
#[derive(Debug, Clone, Copy)]
pub struct Greylist<'a>(pub(crate) &'a Db);

/// An attempt to deliver a message of an unknown sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GreylistAttempt {
    /// The keys of its recipients.
    pub keys: Vec<String>,
    /// The network that the rows are counted for.
    pub network: String,
    /// When it arrives.
    pub now: Timestamp,
    /// Keys first seen until then pass.
    pub before: Timestamp,
    /// The room for new rows.
    pub room: GreylistRoom,
}

/// The room for further rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreylistRoom {
    /// Maximum number of rows of a network that wait. Beyond it, no row is added.
    pub waiting: u64,
    /// Maximum number of rows of a network that have passed. Beyond it, each further one replaces its oldest.
    pub passed: u64,
    /// Whether each further row that passes replaces the oldest of all networks.
    pub is_full_of_passed: bool,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GreylistAnswer {
    /// All keys have passed.
    Passes,
    /// A key waits.
    Waits,
    /// No key waits, but at least one has no row, because there was no room.
    Unlisted {
        /// The number of rows of the network that wait.
        waiting: u64,
    },
}

/// The numbers of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GreylistRows {
    /// Those that wait.
    pub waiting: u64,
    /// Those that have passed.
    pub passed: u64,
}

/// The rows to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GreylistRemoval {
    /// Those that waited in vain.
    Waiting {
        /// They are deleted if they were added before this time.
        before: Timestamp,
    },
    /// Those that passed.
    Passed {
        /// They are deleted if they were last seen before this time.
        before: Timestamp,
    },
    /// Those that wait for the longest time.
    LongestWaiting,
    /// Those that passed, and were not seen for the longest time.
    LongestUnseen,
}

/// A key with a row.
struct KnownKey {
    key: String,
    first_seen: Timestamp,
    last_seen: Timestamp,
    passed: bool,
}

impl Greylist<'_> {
    /// Notes an attempt: keys that are due pass, and new ones get rows if there is room. A power failure may lose the
    /// note. Returns what became of the message, and the change of the numbers of rows.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn attempt(&self, attempt: &GreylistAttempt) -> Result<(GreylistAnswer, GreylistRows), StoreError> {
        // In one order: concurrent transactions would otherwise wait for each other.
        let mut keys = attempt.keys.clone();
        keys.sort_unstable();
        keys.dedup();
        let (known, waiting) = self.known(&keys, attempt).await?;
        let GreylistAttempt { now, before, room, .. } = attempt;
        // A row from later than the delay is from before the clock was set back.
        let latest = now.plus(now.since(*before));
        let is_over = |known: &KnownKey| known.first_seen <= *before || known.first_seen > latest;
        let is_due = |known: &KnownKey| !known.passed && is_over(known);
        let is_early = |known: &KnownKey| !known.passed && !is_over(known);
        let is_stale = |known: &KnownKey| known.passed && now.since(known.last_seen) >= REFRESHED_AFTER;
        let new = || keys.iter().filter(|key| !known.iter().any(|known| known.key == **key));
        let (due, unknown) = (known.iter().filter(|known| is_due(known)).count() as u64, new().count() as u64);

        let seen = known.iter().filter(|known| is_due(known) || is_stale(known));
        let mut statements: Vec<Stmt> = seen.map(|known| see(&known.key, attempt)).collect();
        if due > 0 {
            statements.push(replace_oldest_of(&attempt.network, room.passed, due));
        }
        if due > 0 && room.is_full_of_passed {
            statements.push(GreylistRemoval::LongestUnseen.statement(due));
        }
        // A flood without room costs no write.
        let (others, has_room) = (statements.len(), waiting < room.waiting);
        statements.extend(new().filter(|_| has_room).map(|key| add(key, attempt)));
        let effects = if statements.is_empty() { Vec::new() } else { self.0.batch_in_order(statements).await? };

        let added = touched(&effects[others.min(effects.len())..]);
        // Where there was room, a row that was not added is one that a parallel attempt added first.
        let answer = if known.iter().any(is_early) || (unknown > 0 && has_room) {
            GreylistAnswer::Waits
        } else if unknown > 0 {
            GreylistAnswer::Unlisted { waiting }
        } else {
            GreylistAnswer::Passes
        };
        Ok((answer, GreylistRows { waiting: added, passed: due }))
    }

    /// Returns the keys that have rows, and how many rows of the network wait.
    async fn known(&self, keys: &[String], attempt: &GreylistAttempt) -> Result<(Vec<KnownKey>, u64), StoreError> {
        const KNOWN: &str = "SELECT key, first_seen, last_seen, passed FROM greylist WHERE key = $1";
        let mut statements = vec![waiting_of(&attempt.network, attempt.room.waiting)];
        statements.extend(keys.iter().map(|key| Stmt::new(KNOWN).bind(key.as_str())));
        let mut rows = self.0.read(statements).await?.into_iter();
        let waiting = exactly_one(rows.next().unwrap_or_default())?.unsigned()?;
        let known = rows.flatten().map(|mut row| {
            let (key, first_seen, last_seen) = (row.text()?, row.time()?, row.time()?);
            Ok(KnownKey { key, first_seen, last_seen, passed: row.bool()? })
        });
        Ok((known.collect::<Result<_, StoreError>>()?, waiting))
    }

    /// Counts the rows; the writer does not wait for it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn rows(&self) -> Result<GreylistRows, StoreError> {
        let sql = "SELECT (SELECT COUNT(*) FROM greylist WHERE passed = FALSE), \
                   (SELECT COUNT(*) FROM greylist WHERE passed = TRUE)";
        let mut row = exactly_one(exactly_one(self.0.scan(vec![Stmt::new(sql)]).await?)?)?;
        Ok(GreylistRows { waiting: row.unsigned()?, passed: row.unsigned()? })
    }

    /// Deletes at most `limit` rows, the oldest first; returns their number.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn remove(&self, removal: GreylistRemoval, limit: u64) -> Result<u64, StoreError> {
        // Durable, so that the time of the call includes the disk's: the pause after it follows from that.
        Ok(self.0.execute(removal.statement(limit)).await?.touched)
    }
}

impl GreylistRemoval {
    fn statement(self, limit: u64) -> Stmt {
        const ANY: Timestamp = Timestamp::from_millis(i64::MAX);
        let (passed, before) = match self {
            Self::Waiting { before } => (false, before),
            Self::Passed { before } => (true, before),
            Self::LongestWaiting => (false, ANY),
            Self::LongestUnseen => (true, ANY),
        };
        // Compared with a constant, so that the index on both columns helps.
        let sql = format!(
            "DELETE FROM greylist WHERE key IN (SELECT key FROM greylist WHERE passed = {passed} AND last_seen < $1 \
             ORDER BY last_seen LIMIT $2)"
        );
        Stmt::new(sql).bind(before).bind(number(limit))
    }
}

/// Counts the rows of a network that wait, up to `most`.
fn waiting_of(network: &str, most: u64) -> Stmt {
    let sql = "SELECT COUNT(*) FROM (SELECT 1 FROM greylist WHERE network = $1 AND passed = FALSE LIMIT $2) \
               AS waiting_rows";
    Stmt::new(sql).bind(network).bind(number(most.max(LEAST_COUNTED)))
}

/// Number of waiting rows that are counted even if no row may be added.
const LEAST_COUNTED: u64 = 100;

/// Adds a key, unless its network has its share of the rows that wait.
fn add(key: &str, attempt: &GreylistAttempt) -> Stmt {
    let sql = "INSERT INTO greylist (key, network, first_seen, last_seen, passed) \
               SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS BIGINT), CAST($3 AS BIGINT), FALSE \
               WHERE (SELECT COUNT(*) FROM (SELECT 1 FROM greylist WHERE network = $2 AND passed = FALSE LIMIT $4) \
               AS waiting_rows) < $4 ON CONFLICT (key) DO NOTHING";
    let GreylistAttempt { network, now, room, .. } = attempt;
    Stmt::new(sql).bind(key).bind(network.as_str()).bind(*now).bind(number(room.waiting))
}

/// Notes that a key has passed.
fn see(key: &str, attempt: &GreylistAttempt) -> Stmt {
    // Rows of earlier versions have no network.
    let sql = "UPDATE greylist SET passed = TRUE, last_seen = $2, network = $3 WHERE key = $1";
    Stmt::new(sql).bind(key).bind(attempt.now).bind(attempt.network.as_str())
}

/// Deletes at most `most` of the oldest rows of a network that have passed, above its share.
fn replace_oldest_of(network: &str, share: u64, most: u64) -> Stmt {
    let sql = "DELETE FROM greylist WHERE key IN (SELECT key FROM greylist WHERE network = $1 AND passed = TRUE \
               ORDER BY last_seen DESC LIMIT $3 OFFSET $2)";
    Stmt::new(sql).bind(network).bind(number(share)).bind(number(most))
}

fn touched(effects: &[Effect]) -> u64 {
    effects.iter().map(|effect| effect.touched).sum()
}
