//! Clients with a sender and a recipient that this server has seen.

use mailapi_model::Timestamp;

use crate::StoreError;
use crate::db::{Db, Stmt, exactly_one};

/// The greylist. Each row is a *key*: the hash of a client's network, a sender and a recipient.
#[derive(Debug, Clone, Copy)]
pub struct Greylist<'a>(pub(crate) &'a Db);

/// Age from which rows of the greylist are deleted, and their maximum number.
#[derive(Debug, Clone, Copy)]
pub struct GreylistKept {
    /// Rows that never passed are deleted if they were first seen before this time.
    pub waiting: Timestamp,
    /// Rows that passed are deleted if they were last seen before this time.
    pub passed: Timestamp,
    /// Maximum number of rows. Of more, those that were not seen for the longest time are deleted, and rows that never
    /// passed before the others.
    pub rows: u64,
}

impl Greylist<'_> {
    /// Notes an attempt for each key, and returns whether all of them pass: those first seen until `before`, and those
    /// that have passed earlier. A power failure may lose the note.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn attempt(&self, mut keys: Vec<String>, now: Timestamp, before: Timestamp) -> Result<bool, StoreError> {
        const ATTEMPT: &str = "INSERT INTO greylist (key, first_seen, last_seen, passed) VALUES ($1, $2, $2, FALSE) \
            ON CONFLICT (key) DO UPDATE SET last_seen = $2, passed = greylist.passed OR greylist.first_seen <= $3 \
            RETURNING passed";
        // In one order: concurrent transactions would otherwise wait for each other.
        keys.sort_unstable();
        keys.dedup();
        let attempt = |key: &String| Stmt::new(ATTEMPT).bind(key.as_str()).bind(now).bind(before);
        let effects = self.0.batch_in_order(keys.iter().map(attempt).collect()).await?;
        let passed = effects.into_iter().map(|effect| exactly_one(effect.rows)?.bool());
        Ok(passed.collect::<Result<Vec<_>, _>>()?.into_iter().all(|passed| passed))
    }

    /// Deletes old rows, and rows above the maximum number. Returns their number.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn prune(&self, kept: GreylistKept) -> Result<u64, StoreError> {
        let waiting = Stmt::new("DELETE FROM greylist WHERE NOT passed AND first_seen < $1").bind(kept.waiting);
        let passed = Stmt::new("DELETE FROM greylist WHERE passed AND last_seen < $1").bind(kept.passed);
        let above = "DELETE FROM greylist WHERE key IN \
            (SELECT key FROM greylist ORDER BY passed DESC, last_seen DESC LIMIT $2 OFFSET $1)";
        let above = Stmt::new(above).bind(i64::try_from(kept.rows).unwrap_or(i64::MAX)).bind(i64::MAX);
        let effects = self.0.batch(vec![waiting, passed, above]).await?;
        Ok(effects.iter().map(|effect| effect.touched).sum())
    }
}
