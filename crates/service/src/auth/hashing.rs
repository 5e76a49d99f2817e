//! Threads for password hashing: few, and with low priority.
//!
//! A hash is slow on purpose, and a client that guesses passwords can request any number of them. With as many
//! hashing threads as processors, all other requests would wait for them. With a low priority, the threads yield
//! instead. It is not the lowest one: beside another busy program the lowest gets next to no time, and logins
//! wait for a hash.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use mailapi_backend::{FairPermits, Shared};
use mailapi_model::{ClientNetwork, LoginProtocol, Visitor};
use tokio::sync::oneshot;

use crate::Unavailable;

type Job = Box<dyn FnOnce() + Send>;

/// The origin of a hash request. Capacity is shared evenly between listeners, and between the clients of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    protocol: Option<LoginProtocol>,
    client: Option<ClientNetwork>,
}

impl Share {
    /// Callers that may change accounts.
    pub(crate) const ACCOUNTS: Self = Self { protocol: None, client: None };
}

impl From<Visitor> for Share {
    fn from(from: Visitor) -> Self {
        Self { protocol: Some(from.protocol), client: Some(from.network()) }
    }
}

impl Shared for Share {
    type Group = Option<LoginProtocol>;
    type Member = Option<ClientNetwork>;

    fn group(&self) -> Self::Group {
        self.protocol
    }

    fn member(&self) -> Self::Member {
        self.client
    }
}

/// A pool of hashing threads, each started on first need.
pub(crate) struct HashingThreads {
    /// One permit per thread. A job is queued only with a permit, so a request that is cancelled while it waits
    /// costs nothing.
    permits: FairPermits<Share>,
    most: usize,
    started: Mutex<usize>,
    queue: Sender<Job>,
    waiting: Arc<Mutex<Receiver<Job>>>,
}

impl HashingThreads {
    /// Creates a pool of at most `most` threads, at least one.
    pub(crate) fn new(most: usize) -> Self {
        let (most, (queue, waiting)) = (most.max(1), channel());
        let (permits, waiting) = (FairPermits::new(most), Arc::new(Mutex::new(waiting)));
        Self { permits, most, started: Mutex::new(0), queue, waiting }
    }

    /// Runs `work` on a hashing thread.
    ///
    /// # Errors
    /// If the work panicked or no thread could be started.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        share: Share,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let broken = |error: String| Unavailable::Unforeseen(format!("password hashing failed: {error}"));
        let permit = self.permits.take(share).await;
        self.start_another().map_err(|error| broken(error.to_string()))?;
        let (done, answer) = oneshot::channel();
        let job = Box::new(move || {
            let _permit = permit;
            // Fails if the caller no longer waits; the result is not needed then.
            let _ = done.send(work());
        });
        self.queue.send(job).map_err(|error| broken(error.to_string()))?;
        answer.await.map_err(|error| broken(error.to_string()))
    }

    fn start_another(&self) -> std::io::Result<()> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if *started < self.most {
            let waiting = Arc::clone(&self.waiting);
            thread::Builder::new().name("hashing".to_owned()).spawn(move || serve(&waiting))?;
            *started += 1;
        }
        Ok(())
    }
}

/// Runs jobs until the queue is closed.
fn serve(waiting: &Mutex<Receiver<Job>>) {
    step_back();
    loop {
        // The lock is released before the job runs, so that the other threads can take the next ones.
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // After a panic the result channel is closed, which the caller reports as an error.
        drop(catch_unwind(AssertUnwindSafe(job)));
    }
}

/// Lowers the priority of this thread.
#[cfg(target_os = "linux")]
fn step_back() {
    /// Nice level (nice(2)): beside level 0, about a tenth of a processor. Linux has one for each thread.
    const LOW: i32 = 10;
    // If this is not permitted, hashing competes with everything else at normal priority.
    let _ = rustix::process::setpriority_process(None, LOW);
}

#[cfg(not(target_os = "linux"))]
fn step_back() {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_ends_no_thread() {
        let threads = HashingThreads::new(1);
        for _ in 0..3 {
            assert!(threads.run(Share::ACCOUNTS, || panic!("on purpose")).await.is_err());
        }
        assert_eq!(threads.run(Share::ACCOUNTS, || 7).await.ok(), Some(7));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn there_are_never_more_than_so_many() {
        let threads = Arc::new(HashingThreads::new(2));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let jobs = (0..50).map(|_| {
            let (threads, now, most) = (Arc::clone(&threads), Arc::clone(&now), Arc::clone(&most));
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst)
                };
                threads.run(Share::ACCOUNTS, work).await.is_ok()
            })
        });
        for job in jobs.collect::<Vec<_>>() {
            assert!(job.await.unwrap());
        }
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn they_stand_behind_everybody_else() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        assert_eq!(HashingThreads::new(1).run(Share::ACCOUNTS, priority).await.ok(), Some(10));
        assert_eq!(priority(), before);
    }
}
