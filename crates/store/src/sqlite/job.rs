//! The jobs of the writer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::run_guarded;
use crate::StoreError;

/// When a job's caller is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// When the change is on disk.
    OnDisk,
    /// When the change is visible. It reaches the disk no later than anything written after it.
    InOrder,
}

/// One unit of work: runs inside a savepoint, answered after the group's commit.
pub(super) trait Job: Send {
    /// When the caller is answered.
    fn answered(&self) -> Answered;
    /// Whether the job makes room, and can be run a second time after it failed.
    fn frees(&self) -> bool;
    /// Runs the job; returns whether to keep its changes.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Sends the caller the job's outcome, or the error that lost its group.
    fn answer(self: Box<Self>, lost: Option<&StoreError>);
}

/// Answers a job. Dropping the result or waking the receiver can run caller code; a panic there must not kill
/// the thread.
pub(super) fn answer(job: Box<dyn Job>, lost: Option<&StoreError>) {
    let _ = catch_unwind(AssertUnwindSafe(|| job.answer(lost)));
}

/// What a task does.
pub(super) trait Work<T, E>: Send {
    /// Whether it makes room, and can be run a second time after it failed.
    const FREES: bool;
    /// Runs it; `None` if it cannot be run again.
    fn run(&mut self, connection: &Connection) -> Option<Result<T, E>>;
}

/// Work that runs once.
pub(super) struct OneTime<F>(pub(super) Option<F>);

/// Work that makes room on the disk.
pub(super) struct Freeing<F>(pub(super) F);

impl<T, E: From<StoreError>, F: FnOnce(&Connection) -> Result<T, E> + Send> Work<T, E> for OneTime<F> {
    const FREES: bool = false;

    fn run(&mut self, connection: &Connection) -> Option<Result<T, E>> {
        self.0.take().map(|job| run_guarded(job, connection))
    }
}

impl<T, E: From<StoreError>, F: Fn(&Connection) -> Result<T, E> + Send> Work<T, E> for Freeing<F> {
    const FREES: bool = true;

    fn run(&mut self, connection: &Connection) -> Option<Result<T, E>> {
        Some(run_guarded(&self.0, connection))
    }
}

/// Answers jobs whose group was lost.
pub(super) fn answer_all(group: Vec<Box<dyn Job>>, lost: &StoreError) {
    group.into_iter().for_each(|job| answer(job, Some(lost)));
}

/// Work whose caller waits.
pub(super) struct Task<W, T, E> {
    answered: Answered,
    work: W,
    outcome: Option<Result<T, E>>,
    caller: oneshot::Sender<Result<T, E>>,
    _permit: OwnedSemaphorePermit,
}

impl<W, T, E> Task<W, T, E> {
    pub(super) fn new(
        answered: Answered,
        work: W,
        caller: oneshot::Sender<Result<T, E>>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        Self { answered, work, outcome: None, caller, _permit: permit }
    }
}

impl<W, T, E> Job for Task<W, T, E>
where
    W: Work<T, E>,
    T: Send,
    E: From<StoreError> + Send,
{
    fn answered(&self) -> Answered {
        // A failed job changed nothing, so it need not wait for the disk.
        if matches!(self.outcome, Some(Err(_))) { Answered::InOrder } else { self.answered }
    }

    fn frees(&self) -> bool {
        W::FREES
    }

    fn run(&mut self, connection: &Connection) -> bool {
        let outcome = self.work.run(connection);
        let keep = matches!(outcome, Some(Ok(_)));
        self.outcome = outcome;
        keep
    }

    fn answer(self: Box<Self>, lost: Option<&StoreError>) {
        let outcome = match (self.outcome, lost) {
            // The job's own error is more informative than that of the group; either way nothing was stored.
            (Some(Err(error)), _) => Err(error),
            (_, Some(lost)) => Err(lost.clone().into()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(StoreError::closed().into()),
        };
        // The caller may have stopped waiting.
        let _ = self.caller.send(outcome);
    }
}
