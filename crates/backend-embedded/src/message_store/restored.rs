//! Changes of a file that was restored from a backup.

use mailapi_model::Timestamp;
use mailapi_store::StoreError;
use mailapi_store::sqlite::Sqlite;
use rusqlite::params;

use super::renumber::HIGHEST_MODSEQ;
use super::schema::MAIL_SCHEMA;

/// More numbers than a folder used between a backup and its restore. A folder has enough for 4,000 restores.
const PASSED_OVER: u32 = 1_000_000;

/// Passes over the UIDs and modification sequences that the store may have used after the backup.
///
/// Otherwise new messages would get UIDs that mail programs know from lost ones (RFC 9051 section 2.3.1.1). A client that
/// comes back gets the state of every message, and learns which UIDs are gone (RFC 7162 section 3.2.5).
///
/// # Errors
/// If the database fails, or a newer version wrote it.
pub async fn pass_over_used_numbers(sqlite: &Sqlite, now: Timestamp) -> Result<(), StoreError> {
    sqlite.migrate(MAIL_SCHEMA.component, MAIL_SCHEMA.migrations, now).await?;
    let job = |connection: &rusqlite::Connection| {
        // A folder whose numbers are used up, or whose modification sequence is damaged, gets new ones at the start.
        let sql = "UPDATE drop_folders SET uid_next = MIN(uid_next + ?1, ?2),
            highest_modseq = MIN(highest_modseq, ?3) + ?1, vanished_after = MIN(highest_modseq, ?3) + ?1";
        connection.execute(sql, params![PASSED_OVER, u32::MAX, HIGHEST_MODSEQ])?;
        connection.execute("DELETE FROM drop_vanished", [])?;
        let sql = "UPDATE drop_entries
            SET modseq = (SELECT highest_modseq FROM drop_folders WHERE id = drop_entries.folder_id)";
        connection.execute(sql, [])?;
        Ok::<_, StoreError>(())
    };
    sqlite.write(job).await
}
