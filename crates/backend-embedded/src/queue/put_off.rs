//! Releases claims without an attempt.

use mailapi_model::Timestamp;
use mailapi_store::StoreError;
use rusqlite::params;

use super::QueueKey;
use super::hold::HELD;
use crate::MessageStore;

impl MessageStore {
    /// Releases the claims of these recipients and makes them due at `until`, unless they are on hold. It does not
    /// count as an attempt.
    ///
    /// # Errors
    /// If the database fails; the claims then end with their leases.
    pub async fn put_off(&self, recipients: Vec<(QueueKey, u32)>, until: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE drop_queue_recipients SET leased_until = 0,
                next_attempt_at = CASE next_attempt_at WHEN ?4 THEN ?4 ELSE ?3 END
            WHERE queue = ?1 AND position = ?2";
        self.write(move |connection, touched| {
            let mut statement = connection.prepare_cached(sql)?;
            for (queue, position) in recipients {
                statement.execute(params![queue.0, position, until.as_millis(), HELD])?;
            }
            touched.queue();
            Ok(())
        })
        .await
    }
}
