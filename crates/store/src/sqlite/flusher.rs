//! The flusher thread, which waits for the disk so that the writer need not.
//!
//! SQLite commits into the write-ahead log without flushing it (`synchronous=NORMAL`). This thread flushes
//! the log and then answers the callers that were promised durability. Meanwhile the writer runs the next
//! group. A flush covers everything committed before it began, so commits reach the disk in order.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle, ThreadId};

use super::job::{Job, answer};
use super::writer::Message;
use crate::StoreError;

/// Flushes everything that was committed before the call.
pub(super) trait Flush: Send {
    /// Returns when it is on disk.
    fn flush(&mut self) -> io::Result<()>;
}

/// The write-ahead log of a database file.
///
/// SQLite holds no locks on it, so a second handle is safe. Closing a second handle of the database itself
/// would release SQLite's locks.
pub(super) struct LogFile {
    path: PathBuf,
    file: Option<File>,
}

impl LogFile {
    /// Returns the log of this database, which must exist. SQLite puts it beside the file that symbolic links
    /// lead to.
    ///
    /// # Errors
    /// When the symbolic links cannot be resolved.
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        let failed = |error| StoreError::Unavailable(format!("the database file cannot be found: {error}"));
        let mut path = database.canonicalize().map_err(failed)?.into_os_string();
        path.push("-wal");
        Ok(Self { path: path.into(), file: None })
    }
}

impl Flush for LogFile {
    fn flush(&mut self) -> io::Result<()> {
        // The log exists since the first commit, and remains the same file while a connection is open.
        let file = match self.file.take() {
            Some(file) => file,
            None => File::options().write(true).open(&self.path)?,
        };
        let flushed = file.sync_data();
        self.file = Some(file);
        flushed
    }
}

/// The writer's handle on the flusher thread.
pub(super) struct Flusher {
    groups: Option<Sender<Vec<Box<dyn Job>>>>,
    thread: JoinHandle<()>,
}

impl Flusher {
    /// Starts the thread. It reports each flushed or failed group to `done`.
    pub(super) fn start(flush: impl Flush + 'static, done: Sender<Message>) -> Result<Self, StoreError> {
        let (groups, waiting) = channel();
        let thread = thread::Builder::new()
            .name("sqlite-flusher".to_owned())
            .spawn(move || serve(flush, &waiting, &done))
            .map_err(|error| StoreError::Unavailable(format!("cannot start the flusher thread: {error}")))?;
        Ok(Self { groups: Some(groups), thread })
    }

    pub(super) fn thread_id(&self) -> ThreadId {
        self.thread.thread().id()
    }

    /// Flushes everything committed so far, then answers these jobs.
    ///
    /// # Errors
    /// When the thread has ended; the jobs are answered with that error.
    pub(super) fn answer_when_flushed(&self, group: Vec<Box<dyn Job>>) -> Result<(), String> {
        let unheard = match &self.groups {
            Some(groups) => groups.send(group).map_err(|lost| lost.0).err(),
            None => Some(group),
        };
        let Some(unheard) = unheard else { return Ok(()) };
        let gone = "the flusher thread has ended".to_owned();
        let lost = StoreError::DiskFailed(gone.clone());
        unheard.into_iter().for_each(|job| answer(job, Some(&lost)));
        Err(gone)
    }

    /// Lets the thread end after it has answered all jobs.
    pub(super) fn end(&mut self) {
        self.groups = None;
    }
}

fn serve(mut flush: impl Flush, waiting: &Receiver<Vec<Box<dyn Job>>>, done: &Sender<Message>) {
    // The kernel reports a failed flush only once and may have dropped the pages. After that, nothing
    // committed later can be trusted to be on disk either.
    let mut failed: Option<String> = None;
    while let Ok(group) = waiting.recv() {
        // One flush covers all groups that are waiting.
        let groups: Vec<_> = std::iter::once(group).chain(waiting.try_iter()).collect();
        if failed.is_none() {
            failed = flush_guarded(&mut flush).err().map(|error| format!("cannot flush the write-ahead log: {error}"));
        }
        // Answer the writer first, because its next commit waits for this. If the writer has ended, it needs
        // no answer.
        let _ = done.send(Message::Flushed { groups: groups.len(), failed: failed.clone() });
        let lost = failed.clone().map(StoreError::DiskFailed);
        for job in groups.into_iter().flatten() {
            answer(job, lost.as_ref());
        }
    }
}

/// Flushes, turning a panic into an error. The thread must not end early: the writer waits for an answer to
/// every group.
fn flush_guarded(flush: &mut impl Flush) -> io::Result<()> {
    catch_unwind(AssertUnwindSafe(|| flush.flush())).unwrap_or_else(|_| Err(io::Error::other("it panicked")))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::SyncSender;
    use std::time::Duration;

    use futures_util::FutureExt;
    use rusqlite::Connection;

    use super::super::home::FileHome;
    use super::super::job::Answered;
    use super::super::writer::Writer;
    use super::*;
    use crate::sqlite::SqliteSettings;

    /// A disk that waits for the test's command before each flush.
    struct Obedient {
        asked: SyncSender<()>,
        orders: Receiver<io::Result<()>>,
    }

    impl Flush for Obedient {
        fn flush(&mut self) -> io::Result<()> {
            let _ = self.asked.send(());
            self.orders.recv().unwrap_or(Ok(()))
        }
    }

    struct TestWriter {
        _folder: tempfile::TempDir,
        writer: std::sync::Arc<Writer>,
        asked: Receiver<()>,
        orders: Sender<io::Result<()>>,
    }

    fn test_writer(settings: SqliteSettings) -> TestWriter {
        test_writer_with(settings, |asked, orders| Obedient { asked, orders })
    }

    fn test_writer_with<F: Flush + 'static>(
        settings: SqliteSettings,
        disk: impl FnOnce(SyncSender<()>, Receiver<io::Result<()>>) -> F,
    ) -> TestWriter {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db");
        let connection = crate::sqlite::open::writer(&file, &settings).unwrap();
        connection.execute_batch("CREATE TABLE names (name TEXT PRIMARY KEY)").unwrap();
        let ((asked, hears), (orders, obeys)) = (std::sync::mpsc::sync_channel(100), channel());
        let writer = Writer::start(connection, disk(asked, obeys), (FileHome::of(&file).unwrap(), None), settings)
            .unwrap()
            .into();
        TestWriter { _folder: folder, writer, asked: hears, orders }
    }

    impl TestWriter {
        fn write(&self, answered: Answered, name: &'static str) -> tokio::task::JoinHandle<Result<i64, StoreError>> {
            let writer = std::sync::Arc::clone(&self.writer);
            tokio::spawn(async move { writer.write(answered, insert(name)).await })
        }
    }

    impl Writer {
        /// Queues the job at once; the returned future waits for its answer.
        fn queue<T: Send + 'static>(
            self: &std::sync::Arc<Self>,
            answered: Answered,
            job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        ) -> impl Future<Output = Result<T, StoreError>> {
            let writer = std::sync::Arc::clone(self);
            let mut write = Box::pin(async move { writer.write(answered, job).await });
            // The first poll puts the job into the queue.
            let first = (&mut write).now_or_never();
            async move {
                match first {
                    Some(done) => done,
                    None => write.await,
                }
            }
        }
    }

    /// Returns a job that adds a name and counts all names.
    fn insert(name: &'static str) -> impl FnOnce(&Connection) -> Result<i64, StoreError> + Send {
        move |connection| {
            connection.execute("INSERT INTO names (name) VALUES (?1)", [name])?;
            Ok(connection.query_row("SELECT COUNT(*) FROM names", [], |row| row.get(0))?)
        }
    }

    /// A test that waits this long has failed.
    const NEVER: Duration = Duration::from_secs(3600);

    #[tokio::test(flavor = "multi_thread")]
    async fn after_a_flush_that_failed_nothing_is_promised_any_more() {
        let test_writer = test_writer(SqliteSettings { foreign_check: NEVER, ..SqliteSettings::default() });
        test_writer.orders.send(Err(io::Error::other("a broken disk"))).unwrap();
        assert_eq!(test_writer.writer.keeps(), Ok(()));
        let lost = test_writer.write(Answered::OnDisk, "lost").await.unwrap().unwrap_err();
        let why = "cannot flush the write-ahead log: a broken disk".to_owned();
        assert_eq!(lost, StoreError::DiskFailed(why.clone()), "a committed change must not be reported as refused");
        let refused = StoreError::Unavailable(why);
        for answered in [Answered::OnDisk, Answered::InOrder] {
            assert_eq!(test_writer.write(answered, "later").await.unwrap(), Err(refused.clone()));
        }
        assert_eq!(test_writer.writer.keeps(), Err(refused));
        assert_eq!(test_writer.asked.try_iter().count(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn durable_jobs_wait_for_the_flush_and_the_writer_does_not() {
        let settings = SqliteSettings { foreign_check: NEVER, group_time: Duration::ZERO, ..SqliteSettings::default() };
        let test_writer = test_writer(settings);
        let first = test_writer.write(Answered::OnDisk, "first");
        test_writer.asked.recv().unwrap();
        // The disk is busy, which must not delay other callers.
        assert_eq!(test_writer.write(Answered::InOrder, "second").await.unwrap(), Ok(2));
        let third = test_writer.write(Answered::OnDisk, "third");
        assert_eq!(test_writer.write(Answered::InOrder, "fourth").await.unwrap().map(|seen| seen >= 3), Ok(true));
        assert!(!first.is_finished() && !third.is_finished());
        test_writer.orders.send(Ok(())).unwrap();
        assert_eq!(first.await.unwrap(), Ok(1));
        test_writer.asked.recv().unwrap();
        assert!(!third.is_finished(), "the change was written after that flush began");
        test_writer.orders.send(Ok(())).unwrap();
        assert!(third.await.unwrap().is_ok());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_comes_while_the_disk_is_busy_shares_the_next_flush() {
        let test_writer =
            test_writer(SqliteSettings { foreign_check: NEVER, group_time: NEVER, ..SqliteSettings::default() });
        let first = test_writer.write(Answered::OnDisk, "first");
        test_writer.asked.recv().unwrap();
        let later = ["a", "b", "c", "d"].map(|name| test_writer.writer.queue(Answered::OnDisk, insert(name)));
        // From here on, every flush succeeds.
        drop(test_writer.orders);
        first.await.unwrap().unwrap();
        for job in later {
            job.await.unwrap();
        }
        assert_eq!(test_writer.asked.try_iter().count(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_job_answered_in_order_is_flushed_a_moment_later() {
        let short = Duration::from_millis(1);
        let test_writer = test_writer(SqliteSettings { foreign_check: short, ..SqliteSettings::default() });
        // The first flush covers what an earlier process may have left.
        test_writer.asked.recv().unwrap();
        test_writer.orders.send(Ok(())).unwrap();
        assert_eq!(test_writer.write(Answered::InOrder, "lazy").await.unwrap(), Ok(1));
        test_writer.asked.recv().unwrap();
        test_writer.orders.send(Ok(())).unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_steady_stream_of_lazy_jobs_is_flushed_too() {
        let at_once = Duration::from_nanos(1);
        let test_writer =
            test_writer(SqliteSettings { foreign_check: at_once, group_jobs: 1, ..SqliteSettings::default() });
        test_writer.asked.recv().unwrap();
        drop(test_writer.orders);
        let (release, held) = channel::<()>();
        let lazy = test_writer.writer.queue(Answered::InOrder, move |_| {
            let _ = held.recv();
            Ok(1)
        });
        // Queue it before the other job ends, so that the writer is never idle between the two.
        let asked = test_writer.asked;
        let next = test_writer.writer.queue(Answered::InOrder, move |_: &Connection| {
            asked.recv_timeout(Duration::from_secs(60)).map_err(|_| StoreError::unexpected("no flush was requested"))
        });
        drop(release);
        assert_eq!(lazy.await, Ok(1));
        assert_eq!(next.await, Ok(()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_answer_that_panics_ends_neither_thread() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        let test_writer = test_writer(SqliteSettings { foreign_check: NEVER, ..SqliteSettings::default() });
        drop(test_writer.orders);
        for answered in [Answered::OnDisk, Answered::InOrder] {
            let (release, held) = channel::<()>();
            let answer = test_writer.writer.queue(answered, move |_: &Connection| {
                let _ = held.recv();
                Ok::<_, StoreError>(Bomb)
            });
            // The future is dropped before its answer exists, so the threads must discard it.
            drop(answer);
            drop(release);
        }
        assert_eq!(test_writer.writer.queue(Answered::OnDisk, insert("later")).await, Ok(1));
        test_writer.writer.close().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_disk_that_panics_is_a_disk_that_failed() {
        struct Bomb;
        impl Flush for Bomb {
            fn flush(&mut self) -> io::Result<()> {
                panic!("on purpose");
            }
        }
        let test_writer =
            test_writer_with(SqliteSettings { foreign_check: NEVER, ..SqliteSettings::default() }, |_, _| Bomb);
        let lost = test_writer.write(Answered::OnDisk, "lost").await.unwrap();
        assert_eq!(lost, Err(StoreError::DiskFailed("cannot flush the write-ahead log: it panicked".to_owned())));
        test_writer.writer.close().await;
    }

    #[test]
    fn the_log_lies_beside_the_file_to_which_a_link_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (database, link) = (folder.path().join("far.db"), folder.path().join("near.db"));
        assert!(LogFile::of(&database).is_err(), "there is none yet");
        std::fs::write(&database, "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&database, &link).unwrap();
        #[cfg(not(unix))]
        std::fs::hard_link(&database, &link).unwrap();
        let log = LogFile::of(&link).unwrap();
        #[cfg(unix)]
        assert_eq!(log.path.file_name(), Some("far.db-wal".as_ref()));
        assert!(log.file.is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn closing_waits_for_the_disk_and_takes_in_who_comes_meanwhile() {
        let test_writer = test_writer(SqliteSettings { foreign_check: NEVER, ..SqliteSettings::default() });
        let first = test_writer.write(Answered::OnDisk, "first");
        test_writer.asked.recv().unwrap();
        let writer = std::sync::Arc::clone(&test_writer.writer);
        let closing = tokio::spawn(async move { writer.close().await });
        let late = test_writer.write(Answered::OnDisk, "late");
        assert!(!first.is_finished());
        // From here on, every flush succeeds.
        drop(test_writer.orders);
        closing.await.unwrap();
        assert_eq!(first.await.unwrap(), Ok(1));
        assert!(late.await.unwrap().map_or_else(|error| error.is_unavailable(), |seen| seen == 2));
    }
}
