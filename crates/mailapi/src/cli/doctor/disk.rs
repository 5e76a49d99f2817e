//! The room on the disk under the SQLite file.

use std::path::Path;

use bytesize::ByteSize;
use mailapi_store::sqlite::{Sqlite, reserve_of};

use super::finding::Finding;

/// With less room, the next large message fills the disk.
const LEAST_FREE: u64 = 64 * 1024 * 1024;
/// With less room, a server whose disk was full still calls it full.
const FULL: u64 = 4 * 1024 * 1024;

/// Checks that new mail fits, and that deletions work without room.
pub(super) async fn disk(sqlite: &Sqlite, database: &Path) -> Finding {
    const WHAT: &str = "disk";
    let parent = database.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let free = match rustix::fs::statvfs(parent) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(error) => return Finding::unknown(WHAT, error),
    };
    let reserve = match reserve_of(database) {
        0 => "no reserve for deletions is left".to_owned(),
        bytes => format!("a reserve of {} is kept for deletions", ByteSize(bytes)),
    };
    let inside = sqlite.free_bytes().await.unwrap_or(0);
    let shown = format!("{} are free, and {} in the database; {reserve}", ByteSize(free), ByteSize(inside));
    let advice = "remove other files on the disk, such as old exports, or enlarge it. Deletions work on a full disk: \
                  `mailapi user remove`, `DELETE /users/{email}/purge` of the API, mail programs. The database file keeps \
                  its size, and new mail uses the room in it after the disk has room again";
    if free < FULL {
        Finding::wrong(WHAT, format!("full; {shown}"), advice)
    } else if free < LEAST_FREE {
        Finding::noted(WHAT, shown, advice)
    } else {
        Finding::fine(WHAT, shown)
    }
}
