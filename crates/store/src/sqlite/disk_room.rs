//! Room on a full disk, so that deletions work there.
//!
//! SQLite writes a deletion into its log before the pages of the database become free, and a full disk has no room for the
//! log. A reserve file beside the database keeps that room. It is emptied, never removed, so several processes can use it
//! at once.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::reserve::ReserveFile;
use super::{SqliteSettings, open};
use crate::StoreError;

/// Less room than this is a full disk: the log grows by as much in one group.
const LEAST_ROOM: u64 = 1024 * 1024;
/// A disk that was full has room again from this much on, so that its state does not change with each message.
const ROOM_AGAIN: u64 = 4 * 1024 * 1024;
/// Longest wait for those who read the log, before it is emptied. Meanwhile the writer does nothing else.
const READERS_PATIENCE: Duration = Duration::from_millis(250);
/// Pause between two looks at the disk.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Keeps the reserve, and gives it up for deletions.
#[derive(Debug)]
pub(super) struct DiskRoom {
    reserve: ReserveFile,
    settings: SqliteSettings,
    full: Arc<AtomicBool>,
    looked: Instant,
}

impl DiskRoom {
    /// Opens the reserve of a database; `None` without the setting, or if the file cannot be used.
    pub(super) fn beside(database: &Path, settings: &SqliteSettings, full: Arc<AtomicBool>) -> Option<Self> {
        if settings.reserve_bytes == 0 {
            return None;
        }
        match ReserveFile::beside(database, settings) {
            Ok(reserve) => Some(Self { reserve, settings: settings.clone(), full, looked: Instant::now() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(%error, "no reserve for a full disk can be kept");
                None
            }
        }
    }

    /// Opens a database again with the reserve.
    pub(super) fn open_again<T>(&self, open: impl FnOnce() -> T) -> T {
        self.reserve.lock();
        self.reserve.release();
        let opened = open();
        self.judge();
        self.reserve.unlock();
        opened
    }

    /// Keeps a reserve after the database was opened.
    pub(super) fn begin(&self) {
        if self.reserve.try_lock() {
            self.reserve.remove_holes();
            if !self.reserve.is_whole() {
                self.judge();
            }
            self.reserve.unlock();
        }
    }

    /// Returns whether a failed group met a full disk.
    pub(super) fn is_reason_for(&self, lost: &StoreError) -> bool {
        match lost {
            StoreError::DiskFull => true,
            // A quota of the system (EDQUOT) looks like a failed write, and SQLite may roll back without the reason.
            StoreError::Unavailable(_) => self.is_used_up(),
            _ => false,
        }
    }

    /// Returns whether a failed deletion may have met a full disk.
    pub(super) fn is_used_up(&self) -> bool {
        if !self.reserve.try_lock() {
            // Another process uses the reserve, so the disk is full.
            return true;
        }
        let is_used_up = !self.reserve.has_besides(LEAST_ROOM);
        self.reserve.unlock();
        is_used_up
    }

    /// Judges the disk after it had no room for a change other than a deletion.
    pub(super) fn refused(&self, connection: &mut Connection) {
        self.set_full(true);
        self.keep(connection);
    }

    /// Makes room for deletions. No other process takes that room until [`DiskRoom::restore`].
    pub(super) fn give_up(&self, connection: &mut Connection) {
        self.set_full(true);
        self.reserve.lock();
        self.reserve.release();
        // A commit may not write the log into the database when that takes the room of the next deletion.
        let _ = connection.pragma_update(None, "wal_autocheckpoint", 0);
        self.empty_log(connection);
    }

    /// Gives the log's room back after deletions, and keeps a reserve again.
    pub(super) fn restore(&self, connection: &mut Connection) {
        let is_empty = self.empty_log(connection);
        let _ = connection.pragma_update(None, "wal_autocheckpoint", self.settings.checkpoint_pages);
        if is_empty {
            self.judge();
        } else {
            self.reserve.refill();
        }
        self.reserve.unlock();
    }

    /// Looks at the disk from time to time.
    pub(super) fn look(&mut self, connection: &mut Connection) {
        if self.looked.elapsed() < LOOK_AGAIN {
            return;
        }
        self.looked = Instant::now();
        let is_well =
            !self.is_full() && self.reserve.is_whole() && self.reserve.free().is_none_or(|free| free >= LEAST_ROOM);
        if !is_well {
            self.keep(connection);
        }
    }

    /// Writes the log into the database and empties it, unless the database would need too much room to grow. Returns
    /// whether it has enough.
    pub(super) fn empty_log(&self, connection: &mut Connection) -> bool {
        let fits = growth(connection)
            .is_ok_and(|needs| needs == 0 || self.reserve.has_besides(needs.saturating_add(LEAST_ROOM)));
        if fits {
            let _ = open::look_often_for_the_lock(connection, READERS_PATIENCE);
            // A reader may prevent it; then the log keeps its room.
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            let _ = open::look_often_for_the_lock(connection, self.settings.busy_timeout);
        }
        fits
    }

    /// Keeps a reserve, unless another process uses it at this moment.
    fn keep(&self, connection: &mut Connection) {
        if self.reserve.try_lock() {
            if !self.is_full() || self.empty_log(connection) {
                self.judge();
            } else {
                self.reserve.refill();
            }
            self.reserve.unlock();
        }
    }

    /// Keeps a reserve, and finds out whether the disk has room besides.
    fn judge(&self) {
        let needed = if self.is_full() { ROOM_AGAIN } else { LEAST_ROOM };
        self.set_full(!self.reserve.refill() || !self.reserve.has_besides(needed));
    }

    fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    fn set_full(&self, is_full: bool) {
        match (self.full.swap(is_full, Ordering::Relaxed), is_full) {
            (false, true) => tracing::error!("the disk is full; only deletions are stored"),
            (true, false) => tracing::info!("the disk has room again"),
            _ => {}
        }
    }
}

/// Returns the bytes in a database that no data uses.
pub(super) fn free_bytes(connection: &Connection) -> Result<u64, StoreError> {
    let bytes = number(connection, "PRAGMA freelist_count")? * number(connection, "PRAGMA page_size")?;
    Ok(bytes.cast_unsigned())
}

/// Returns the bytes by which a checkpoint enlarges the database file.
fn growth(connection: &Connection) -> Result<u64, StoreError> {
    let size = number(connection, "PRAGMA page_count")? * number(connection, "PRAGMA page_size")?;
    let length = connection.path().and_then(|path| open::file_length(Path::new(path))).unwrap_or(0);
    Ok(size.cast_unsigned().saturating_sub(length))
}

fn number(connection: &Connection, pragma: &str) -> Result<i64, StoreError> {
    Ok(connection.query_row(pragma, [], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::super::home::with_suffix;
    use super::super::reserve::{SUFFIX, reserve_of};
    use super::*;
    use crate::sqlite::Sqlite;

    /// A small reserve.
    const BYTES: u64 = 2 * 1024 * 1024;

    fn settings() -> SqliteSettings {
        SqliteSettings { reserve_bytes: BYTES, ..SqliteSettings::default() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reserve_is_kept_beside_the_database_of_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db");
        for _ in 0..2 {
            let sqlite = Sqlite::open(&file, settings()).unwrap();
            let reserve = with_suffix(&file, SUFFIX).metadata().unwrap();
            assert_eq!((reserve.len(), reserve.mode() & 0o777), (BYTES, 0o600));
            assert!(reserve.blocks() * 512 >= BYTES, "the file has no holes");
            assert_eq!(sqlite.has_room(), Ok(()));
            sqlite.close().await;
        }
        // A copy of a data directory may have made holes.
        File::options().write(true).open(with_suffix(&file, SUFFIX)).unwrap().set_len(0).unwrap();
        let sqlite = Sqlite::open(&file, settings()).unwrap();
        assert_eq!(reserve_of(&file), BYTES);
        sqlite.close().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_link_in_place_of_the_reserve_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("test.db"), folder.path().join("other"));
        let reserve = with_suffix(&file, SUFFIX);
        std::fs::write(&other, "precious").unwrap();
        let links: [fn(&Path, &Path) -> io::Result<()>; 2] =
            [|to, link| symlink(to, link), |to, link| std::fs::hard_link(to, link)];
        for link in links {
            link(&other, &reserve).unwrap();
            let sqlite = Sqlite::open(&file, settings()).unwrap();
            sqlite.write_freeing(|_| Ok::<_, StoreError>(())).await.unwrap();
            sqlite.close().await;
            assert_eq!(std::fs::read_to_string(&other).unwrap(), "precious");
            std::fs::remove_file(&reserve).unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_a_reserve_a_deletion_is_like_any_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db");
        let sqlite = Sqlite::open(&file, SqliteSettings::default()).unwrap();
        let failed = sqlite.write_freeing(|_| Err::<(), _>(StoreError::Reference)).await;
        assert_eq!(failed, Err(StoreError::Reference));
        assert!(!with_suffix(&file, SUFFIX).exists());
        sqlite.close().await;
    }

    /// Runs one test of this program again on a small file system, if one can be mounted here.
    fn run_on_small_disk(test: &str) {
        let folder = tempfile::tempdir().unwrap();
        let mount =
            "mount -t tmpfs -o size=24m tmpfs \"$1\" || exit 77; TMPDIR=\"$1\" exec \"$2\" --exact \"$3\" --ignored";
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", mount, "sh"]).arg(folder.path());
        let Ok(output) = command.arg(format!("/proc/{}/exe", std::process::id())).arg(test).output() else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() || !text.contains("running 1 test"), "{text}");
    }

    fn fill(file: &Path) {
        let mut file = File::create(file).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    async fn insert(sqlite: &Sqlite) -> Result<(), StoreError> {
        let sql = "INSERT INTO blobs (body) VALUES (randomblob(1000000))";
        sqlite.write(move |connection| Ok(connection.execute(sql, []).map(drop)?)).await
    }

    async fn delete(sqlite: &Sqlite) -> Result<usize, StoreError> {
        let sql = "DELETE FROM blobs WHERE id = (SELECT min(id) FROM blobs)";
        sqlite.write_freeing(move |connection| Ok(connection.execute(sql, [])?)).await
    }

    #[test]
    fn deletions_work_on_a_full_disk() {
        run_on_small_disk("sqlite::disk_room::tests::on_a_small_disk");
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "runs on a small file system, started by another test"]
    async fn on_a_small_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (file, filler) = (folder.path().join("test.db"), folder.path().join("filler"));
        let mut sqlite = Sqlite::open(&file, settings()).unwrap();
        let table = "CREATE TABLE blobs (id INTEGER PRIMARY KEY, body BLOB)";
        sqlite.write(move |connection| Ok::<_, StoreError>(connection.execute_batch(table)?)).await.unwrap();
        for restarts in [false, true] {
            for _ in 0..3 {
                insert(&sqlite).await.unwrap();
            }
            fill(&filler);
            // The log may have room for a while.
            while insert(&sqlite).await.is_ok() {}
            fill(&folder.path().join("filler-of-the-rest"));
            assert_eq!(
                (insert(&sqlite).await, sqlite.has_room()),
                (Err(StoreError::DiskFull), Err(StoreError::DiskFull))
            );
            if restarts {
                sqlite.close().await;
                fill(&folder.path().join("filler-after-the-stop"));
                sqlite = Sqlite::open(&file, settings()).unwrap();
            }
            for _ in 0..3 {
                assert_eq!(delete(&sqlite).await, Ok(1));
            }
            assert_eq!(sqlite.has_room(), Err(StoreError::DiskFull));
            for name in ["filler", "filler-of-the-rest", "filler-after-the-stop"] {
                let _ = std::fs::remove_file(folder.path().join(name));
            }
            let began = Instant::now();
            while sqlite.has_room().is_err() {
                assert!(began.elapsed() < Duration::from_secs(20));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!((insert(&sqlite).await, reserve_of(&file)), (Ok(()), BYTES));
        }
        sqlite.close().await;
    }
}
