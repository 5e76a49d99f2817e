//! Threads on which passwords are hashed: few, and behind everything else that wants a processor.
//!
//! A hash is slow on purpose, and whoever guesses passwords can ask for any number of them. Where there are no more
//! processors than such threads, everybody else would wait for a turn behind them; with a low priority they are
//! interrupted instead. It is not the lowest: whoever logs in waits for a hash, and beside another program that keeps the
//! processors busy the lowest would get next to nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use mailapi_model::{ClientNetwork, LoginProtocol, Visitor};
use tokio::sync::oneshot;

use super::fair_permits::{FairPermits, Shared};
use crate::Unavailable;

type Job = Box<dyn FnOnce() + Send>;

/// The origin of a hash request. Doors take turns, and so do the clients at each door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    protocol: Option<LoginProtocol>,
    client: Option<ClientNetwork>,
}

impl Share {
    /// Callers who may change accounts.
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

/// Some threads for hashing, started when they are first needed.
pub(crate) struct HashingThreads {
    /// As many as there are threads: a job is queued when there is one for it, and not at all when its caller has gone
    /// before.
    permits: FairPermits<Share>,
    most: usize,
    started: Mutex<usize>,
    queue: Sender<Job>,
    waiting: Arc<Mutex<Receiver<Job>>>,
}

impl HashingThreads {
    /// At most so many, at least one.
    pub(crate) fn new(most: usize) -> Self {
        let (most, (queue, waiting)) = (most.max(1), channel());
        let (permits, waiting) = (FairPermits::new(most), Arc::new(Mutex::new(waiting)));
        Self { permits, most, started: Mutex::new(0), queue, waiting }
    }

    /// Runs `work` when it is its turn.
    ///
    /// # Errors
    /// When it panicked, or there can be no thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        share: Share,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let broken = |error: String| Unavailable::Unforeseen(format!("password hashing: {error}"));
        let permit = self.permits.take(share).await;
        self.start_another().map_err(|error| broken(error.to_string()))?;
        let (done, answer) = oneshot::channel();
        let job = Box::new(move || {
            let _permit = permit;
            // A caller that no longer waits has no use for the answer.
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

/// Works until there can be no more jobs.
fn serve(waiting: &Mutex<Receiver<Job>>) {
    step_back();
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // The caller learns of a panic by the answer that does not come.
        drop(catch_unwind(AssertUnwindSafe(job)));
    }
}

/// Lets this thread have what others leave of the processors.
#[cfg(target_os = "linux")]
fn step_back() {
    /// As nice(2) counts, beside 0 about a tenth of a processor. Linux keeps one for each thread.
    const LOW: i32 = 10;
    // Where it is not allowed, hashing competes with everything else.
    let _ = rustix::process::setpriority_process(None, LOW);
}

#[cfg(not(target_os = "linux"))]
fn step_back() {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_panic_is_told_and_takes_no_thread_away() {
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
