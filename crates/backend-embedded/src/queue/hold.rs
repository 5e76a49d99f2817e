//! Messages that the operator put on hold.
//!
//! Hold is a property of each recipient's row, so that looking for due recipients needs no other table.

use mailapi_model::Timestamp;
use mailapi_store::StoreError;
use rusqlite::params;

use super::QueueKey;
use crate::MessageStore;

/// The next attempt of a recipient on hold, in milliseconds: the last possible time. The migrations name it too.
pub(super) const HELD: i64 = 253_402_300_799_999;

/// A claimed recipient of a message that was put on hold after the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldClaim {
    pub(crate) key: QueueKey,
    pub(crate) position: u32,
    pub(crate) leased_until: Timestamp,
}

impl MessageStore {
    /// Returns whether the message is on hold.
    pub(crate) async fn is_held(&self, key: QueueKey) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM drop_queue_recipients WHERE queue = ?1 AND next_attempt_at = ?2)";
        self.read_one(|connection| {
            Ok(connection.prepare_cached(sql)?.query_row(params![key.0, HELD], |row| row.get(0))?)
        })
        .await
    }

    /// Returns the claims of messages that are on hold.
    pub(crate) async fn held_claims(&self) -> Result<Vec<HeldClaim>, StoreError> {
        // Literals, because only they match the partial index.
        let sql = "SELECT queue, position, leased_until FROM drop_queue_recipients
            WHERE next_attempt_at = 253402300799999 AND leased_until > 0";
        self.read_one(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let claims = statement.query_and_then([], |row| {
                let (key, leased_until) = (QueueKey(row.get(0)?), Timestamp::from_millis(row.get(2)?));
                Ok(HeldClaim { key, position: row.get(1)?, leased_until })
            })?;
            claims.collect()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_attempt_can_be_due_later_than_one_on_hold() {
        assert_eq!(Timestamp::from_millis(i64::MAX).as_millis(), HELD);
    }
}
