//! The writer thread and its group commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::{SqliteSettings, run_guarded};
use crate::StoreError;

/// The near end: queues jobs for the thread.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` only while dropping.
    queue: Option<Sender<Message>>,
    /// One permit per job that waits, so that a burst cannot fill the memory.
    places: Arc<Semaphore>,
    begun: AtomicU64,
    foreign: watch::Receiver<u64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Message {
    Job(Box<dyn Job>),
    /// Write what waits, close the file, then answer.
    Close(oneshot::Sender<()>),
}

/// One unit of work: run inside a savepoint, answered after the group's commit.
trait Job: Send {
    /// Whether its changes are to be kept.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Tells the caller: its own outcome, or why the group around it was lost.
    fn answer(self: Box<Self>, lost: Option<&StoreError>);
}

struct Task<F, T, E> {
    job: Option<F>,
    outcome: Option<Result<T, E>>,
    caller: oneshot::Sender<Result<T, E>>,
    _place: OwnedSemaphorePermit,
}

impl<F, T, E> Job for Task<F, T, E>
where
    F: FnOnce(&Connection) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        let outcome = self.job.take().map(|job| run_guarded(job, connection));
        let keep = matches!(outcome, Some(Ok(_)));
        self.outcome = outcome;
        keep
    }

    fn answer(self: Box<Self>, lost: Option<&StoreError>) {
        let outcome = match (self.outcome, lost) {
            // Its own error tells more than that of the group, and nothing of it was kept either way.
            (Some(Err(error)), _) => Err(error),
            (_, Some(lost)) => Err(lost.clone().into()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(StoreError::closed().into()),
        };
        // A caller that no longer waits has no use for the answer.
        let _ = self.caller.send(outcome);
    }
}

impl Writer {
    pub(super) fn start(connection: Connection, settings: SqliteSettings) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel();
        let places = Arc::new(Semaphore::new(settings.queue_jobs.max(1)));
        let (changes, foreign) = watch::channel(0);
        let seen_version = data_version(&connection)?;
        let thread = thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || Thread { connection, settings, jobs, changes, seen_version }.serve())
            .map_err(|error| StoreError::Unavailable(format!("no thread for the writer: {error}")))?;
        let begun = AtomicU64::new(0);
        Ok(Self { queue: Some(queue), places, begun, foreign, thread: Mutex::new(Some(thread)) })
    }

    pub(super) async fn write<T, E, F>(&self, job: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| StoreError::closed())?;
        let (caller, answer) = oneshot::channel();
        self.send(Message::Job(Box::new(Task { job: Some(job), outcome: None, caller, _place: place })))?;
        answer.await.unwrap_or_else(|_| Err(StoreError::closed().into()))
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub(super) fn foreign_changes(&self) -> watch::Receiver<u64> {
        self.foreign.clone()
    }

    pub(super) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.send(Message::Close(done)).is_ok() {
            // An error means that the thread has closed for another caller.
            let _ = closed.await;
        }
        self.places.close();
        self.join();
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or_else(StoreError::closed)?;
        queue.send(message).map_err(|_| StoreError::closed())
    }

    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A job may own the last handle: then it is the writer itself that drops it, and it cannot wait for itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // It catches the panics of jobs; should it have died nevertheless, there is nothing left to close.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Without senders the thread writes what waits and ends.
        self.queue = None;
        self.join();
    }
}

/// The far end.
struct Thread {
    connection: Connection,
    settings: SqliteSettings,
    jobs: Receiver<Message>,
    changes: watch::Sender<u64>,
    seen_version: i64,
}

impl Thread {
    fn serve(mut self) {
        let mut closing = Vec::new();
        while closing.is_empty() {
            match self.jobs.recv_timeout(self.settings.foreign_check) {
                Ok(Message::Job(job)) => self.commit_group(job, &mut closing),
                Ok(Message::Close(done)) => closing.push(done),
                // A failing look is not an event: the next group meets the same trouble and reports it.
                Err(RecvTimeoutError::Timeout) => drop(self.notice_foreign_changes()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        while let Ok(message) = self.jobs.try_recv() {
            match message {
                Message::Job(job) => self.commit_group(job, &mut closing),
                Message::Close(done) => closing.push(done),
            }
        }
        // A reader in another process may forbid it; then the next one to open the file does this work.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        drop(self);
        for done in closing {
            let _ = done.send(());
        }
    }

    /// One transaction: the first job and those that wait behind it.
    fn commit_group(&mut self, first: Box<dyn Job>, closing: &mut Vec<oneshot::Sender<()>>) {
        let mut group = vec![first];
        let outcome = self.run_group(&mut group, closing);
        if outcome.is_err() && !self.connection.is_autocommit() {
            // When even this fails the next BEGIN says so.
            let _ = self.execute("ROLLBACK");
        }
        for job in group {
            job.answer(outcome.as_ref().err());
        }
    }

    fn run_group(
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        closing: &mut Vec<oneshot::Sender<()>>,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            // All that wait would meet the same lock or full disk, each for the whole time-out.
            while let Some(job) = self.next_waiting(closing) {
                group.push(job);
            }
            return Err(error);
        }
        // Holding the write lock: what others changed until now is visible, and nothing can follow.
        self.notice_foreign_changes()?;
        let mut next = 0;
        while next < group.len() {
            self.run_job(group[next].as_mut())?;
            next += 1;
            let full = group.len() >= self.settings.group_jobs || began.elapsed() >= self.settings.group_time;
            if !full && next == group.len() {
                group.extend(self.next_waiting(closing));
            }
        }
        self.execute("COMMIT")
    }

    fn run_job(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        self.execute("SAVEPOINT job")?;
        let keep = job.run(&self.connection);
        // Some conditions (disk full, out of memory) make SQLite roll back the whole transaction by itself.
        if self.connection.is_autocommit() {
            return Err(StoreError::Unavailable("the transaction was rolled back by the engine".to_owned()));
        }
        if !keep {
            self.execute("ROLLBACK TO job")?;
        }
        self.execute("RELEASE job")
    }

    fn next_waiting(&self, closing: &mut Vec<oneshot::Sender<()>>) -> Option<Box<dyn Job>> {
        match self.jobs.try_recv() {
            Ok(Message::Job(job)) => Some(job),
            Ok(Message::Close(done)) => {
                closing.push(done);
                None
            }
            Err(_) => None,
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

/// Changes only when another connection commits.
fn data_version(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
}
