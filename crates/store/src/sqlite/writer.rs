//! The writer thread and its group commit.
//!
//! A group accepts jobs until the previous group is flushed. So the writer never waits for the disk while
//! there are jobs to run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot, watch};

use super::disk_room::DiskRoom;
use super::flusher::{Flush, Flusher};
use super::home::FileHome;
use super::job::{Answered, Freeing, Job, OneTime, Task, Work, answer, answer_all};
use super::{SqliteSettings, left_behind};
use crate::{ForeignChanges, StoreError};

/// A handle on the thread, which queues jobs.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Sender<Message>,
    /// One permit for each waiting job, so that a burst cannot exhaust the memory.
    permits: Arc<Semaphore>,
    begun: AtomicU64,
    foreign: ForeignChanges,
    thread: Mutex<Option<JoinHandle<()>>>,
    flusher: ThreadId,
    /// Why writes are no longer possible.
    failed: Arc<OnceLock<StoreError>>,
}

pub(super) enum Message {
    Job(Box<dyn Job>),
    /// This many groups were flushed, or failed to be.
    Flushed {
        groups: usize,
        /// The reason for a failure.
        failed: Option<String>,
    },
    /// Write the waiting jobs, close the file, then answer.
    Close(oneshot::Sender<()>),
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        flush: impl Flush + 'static,
        (home, room): (FileHome, Option<DiskRoom>),
        settings: SqliteSettings,
    ) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel();
        let permits = Arc::new(Semaphore::new(settings.queue_jobs.max(1)));
        let (changes, foreign) = watch::channel(0);
        let foreign = ForeignChanges::counted_by(foreign);
        let seen_version = data_version(&connection)?;
        let flusher = Flusher::start(flush, queue.clone())?;
        let flusher_id = flusher.thread_id();
        let failed = Arc::new(OnceLock::new());
        // An earlier process may have left commits that are not on disk yet.
        let behind = Some(Instant::now());
        let disk = Disk { flusher, flushing: 0, behind, failed: Arc::clone(&failed) };
        let thread = thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || Thread { connection, home, room, settings, jobs, changes, seen_version, disk }.serve())
            .map_err(|error| StoreError::Unavailable(format!("cannot start the writer thread: {error}")))?;
        let begun = AtomicU64::new(0);
        Ok(Self { queue, permits, begun, foreign, thread: Mutex::new(Some(thread)), flusher: flusher_id, failed })
    }

    pub(super) async fn write<T, E, F>(&self, answered: Answered, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.run(answered, OneTime(Some(job))).await
    }

    pub(super) async fn write_freeing<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: Fn(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.run(Answered::OnDisk, Freeing(job)).await
    }

    async fn run<T, E, W>(&self, answered: Answered, work: W) -> Result<T, E>
    where
        W: Work<T, E> + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::closed())?;
        let (caller, answer) = oneshot::channel();
        self.send(Message::Job(Box::new(Task::new(answered, work, caller, permit))))?;
        answer.await.unwrap_or_else(|_| Err(StoreError::closed().into()))
    }

    pub(super) fn keeps(&self) -> Result<(), StoreError> {
        self.failed.get().map_or(Ok(()), |failed| Err(failed.clone()))
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub(super) fn foreign_changes(&self) -> ForeignChanges {
        self.foreign.clone()
    }

    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.send(Message::Close(done)).is_ok() {
            // An error means that the thread has already closed for another caller.
            let _ = closed.await;
        }
        self.permits.close();
        self.join();
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        self.queue.send(message).map_err(|_| StoreError::closed())
    }

    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A job or its answer may own the last handle. Then one of the two threads drops it, and must not
        // wait for itself.
        let here = thread::current().id();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != here && self.flusher != here) {
            // The thread catches the panics of jobs. If it died nevertheless, there is nothing left to close.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Do not wait for the answer here; `join` does. An error means that it was closed before.
        let _ = self.send(Message::Close(oneshot::channel().0));
        self.join();
    }
}

/// The writer's view of the disk.
struct Disk {
    flusher: Flusher,
    /// Number of committed groups whose flush is pending.
    flushing: usize,
    /// Time of the oldest commit that no flush was requested for.
    behind: Option<Instant>,
    /// Why writes are no longer possible.
    failed: Arc<OnceLock<StoreError>>,
}

impl Disk {
    fn heard(&mut self, groups: usize, failed: Option<String>) {
        self.flushing -= groups;
        if let Some(why) = failed {
            self.fail(why);
        }
    }

    /// Stores the first failure, which every later job receives.
    fn fail(&self, why: String) {
        self.failed.get_or_init(|| StoreError::Unavailable(why));
    }

    fn committed(&mut self) {
        self.behind.get_or_insert_with(Instant::now);
    }

    fn flush_what_is_older_than(&mut self, age: Duration) {
        if self.behind.is_some_and(|since| since.elapsed() >= age) {
            self.flush(Vec::new());
        }
    }

    fn flush(&mut self, group: Vec<Box<dyn Job>>) {
        self.behind = None;
        match self.flusher.answer_when_flushed(group) {
            Ok(()) => self.flushing += 1,
            Err(gone) => self.fail(gone),
        }
    }
}

/// The state of the writer thread.
struct Thread {
    connection: Connection,
    home: FileHome,
    room: Option<DiskRoom>,
    settings: SqliteSettings,
    jobs: Receiver<Message>,
    changes: watch::Sender<u64>,
    seen_version: i64,
    disk: Disk,
}

impl Thread {
    fn serve(mut self) {
        let mut closing = Vec::new();
        while closing.is_empty() {
            match self.jobs.recv_timeout(self.settings.foreign_check) {
                Ok(message) => self.take(message, &mut closing),
                Err(RecvTimeoutError::Timeout) => self.look_around(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.disk.flush_what_is_older_than(self.settings.foreign_check);
        }
        // After a close request, still run the queued jobs and wait for pending flushes.
        while let Some(message) = self.rest() {
            self.take(message, &mut closing);
        }
        self.disk.flusher.end();
        left_behind::end(&self.connection, &mut self.home);
        drop(self);
        for done in closing {
            let _ = done.send(());
        }
    }

    /// Returns the next message before the end, waiting for pending flushes.
    fn rest(&self) -> Option<Message> {
        match self.disk.flushing {
            0 => self.jobs.try_recv().ok(),
            _ => self.jobs.recv().ok(),
        }
    }

    fn take(&mut self, message: Message, closing: &mut Vec<oneshot::Sender<()>>) {
        match message {
            Message::Job(job) => self.commit_group(job, closing),
            Message::Flushed { groups, failed } => self.disk.heard(groups, failed),
            Message::Close(done) => closing.push(done),
        }
    }

    /// Runs when the writer is idle.
    fn look_around(&mut self) {
        // A failure here is not reported: the next group meets the same problem and reports it.
        let _ = self.home.check();
        drop(self.notice_foreign_changes());
        self.look_at_the_disk();
    }

    /// Runs one transaction: the first job and the jobs waiting after it.
    fn commit_group(&mut self, first: Box<dyn Job>, closing: &mut Vec<oneshot::Sender<()>>) {
        let mut group = vec![first];
        match self.run_group(&mut group, closing) {
            Ok(()) => self.committed(group),
            Err(lost) => self.rolled_back(group, &lost),
        }
        self.look_at_the_disk();
    }

    /// Answers the jobs of a group that was not committed. On a full disk, deletions are run again with the reserve.
    fn rolled_back(&mut self, group: Vec<Box<dyn Job>>, lost: &StoreError) {
        self.roll_back();
        let Some(room) = self.room.take_if(|room| room.is_reason_for(lost)) else {
            return answer_all(group, lost);
        };
        let (freeing, others): (Vec<_>, Vec<_>) = group.into_iter().partition(|job| job.frees());
        answer_all(others, &StoreError::DiskFull);
        if freeing.is_empty() {
            room.refused(&mut self.connection);
        } else {
            self.run_with_reserve(freeing, &room);
        }
        self.room = Some(room);
    }

    /// Runs deletions again, each in a transaction of its own, so that one has the whole reserve.
    fn run_with_reserve(&mut self, freeing: Vec<Box<dyn Job>>, room: &DiskRoom) {
        room.give_up(&mut self.connection);
        for mut job in freeing {
            match self.run_again(job.as_mut()) {
                Ok(()) => self.committed(vec![job]),
                Err(lost) => {
                    tracing::error!(error = %lost, "a deletion failed although it had the reserve");
                    self.roll_back();
                    answer(job, Some(&lost));
                }
            }
            room.empty_log(&mut self.connection);
        }
        room.restore(&mut self.connection);
    }

    fn run_again(&mut self, job: &mut dyn Job) -> Result<(), StoreError> {
        self.begin()?;
        self.run_job(job)?;
        self.execute("COMMIT")
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // If even this fails, the next BEGIN reports it.
            let _ = self.execute("ROLLBACK");
        }
    }

    fn look_at_the_disk(&mut self) {
        if let Some(room) = &mut self.room {
            room.look(&mut self.connection);
        }
    }

    /// Answers the jobs of a committed group when its changes are durable.
    fn committed(&mut self, group: Vec<Box<dyn Job>>) {
        let (on_disk, in_order): (Vec<_>, Vec<_>) =
            group.into_iter().partition(|job| job.answered() == Answered::OnDisk);
        // The commit is unflushed even if no job waits for the disk.
        self.disk.committed();
        if !on_disk.is_empty() {
            self.disk.flush(on_disk);
        }
        for job in in_order {
            answer(job, None);
        }
    }

    fn run_group(
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        closing: &mut Vec<oneshot::Sender<()>>,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        if let Err(error) = self.begin() {
            // All waiting jobs would meet the same lock or full disk, each for the whole time-out. Fail them
            // together.
            while let Some(job) = self.next_waiting(Duration::ZERO, closing) {
                group.push(job);
            }
            return Err(error);
        }
        // Under the write lock, all earlier changes by others are visible, and none can follow.
        self.notice_foreign_changes()?;
        let mut next = 0;
        while next < group.len() {
            self.run_job(group[next].as_mut())?;
            next += 1;
            if next == group.len() && next < self.settings.group_jobs {
                let left = self.settings.group_time.saturating_sub(began.elapsed());
                group.extend((!left.is_zero()).then(|| self.next_waiting(left, closing)).flatten());
            }
        }
        self.execute("COMMIT")
    }

    fn run_job(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        self.execute("SAVEPOINT job")?;
        let keep = job.run(&self.connection);
        // Some conditions (disk full, out of memory) make SQLite roll back the whole transaction by itself.
        if self.connection.is_autocommit() {
            return Err(StoreError::Unavailable("SQLite rolled the transaction back".to_owned()));
        }
        if !keep {
            // The whole group is then run again with the reserve, or refused.
            if job.frees() && self.room.as_ref().is_some_and(DiskRoom::is_used_up) {
                return Err(StoreError::DiskFull);
            }
            self.execute("ROLLBACK TO job")?;
        }
        self.execute("RELEASE job")
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        // After a failed flush, no further commit can be promised.
        if let Some(failed) = self.disk.failed.get() {
            return Err(failed.clone());
        }
        self.home.check()?;
        self.execute("BEGIN IMMEDIATE")
    }

    /// Returns the next waiting job. While an earlier group is being flushed, it waits up to `patience` for
    /// one.
    fn next_waiting(&mut self, patience: Duration, closing: &mut Vec<oneshot::Sender<()>>) -> Option<Box<dyn Job>> {
        let end = Instant::now() + patience;
        loop {
            // While a flush is pending, waiting for more jobs delays nothing: the next flush starts after it.
            let message = match self.disk.flushing {
                0 => self.jobs.try_recv().ok()?,
                _ => self.jobs.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?,
            };
            match message {
                Message::Job(job) => return Some(job),
                Message::Flushed { groups, failed } => self.disk.heard(groups, failed),
                Message::Close(done) => {
                    closing.push(done);
                    return None;
                }
            }
        }
    }

    fn notice_foreign_changes(&mut self) -> Result<(), StoreError> {
        let version = data_version(&self.connection)?;
        if version != self.seen_version {
            self.seen_version = version;
            self.changes.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

/// Returns a number that changes only when another connection commits.
fn data_version(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
}
