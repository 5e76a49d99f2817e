//! Waits for the log to grow: by file notifications of the system, or by following the journal.

use std::io::Read;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::journal_source::journalctl;
use super::settings::{FileSettings, JournalSettings, LogSettings, LogSource};

/// Wakes the follower when the log grows.
pub(super) struct Waker {
    changed: Arc<Notify>,
    poll_interval: Duration,
    gather_time: Duration,
    /// When it may return for the next change.
    next_look: Mutex<Instant>,
    _file: Option<RecommendedWatcher>,
    journal: Option<Arc<Mutex<Child>>>,
}

impl Waker {
    /// Creates a waker for the source of these settings. Without notifications it relies on the poll interval.
    pub(super) fn new(settings: &LogSettings) -> Self {
        let LogSettings { source, poll_interval, gather_time, .. } = settings;
        let (poll_interval, gather_time) = (*poll_interval, *gather_time);
        let changed = Arc::new(Notify::new());
        let (mut file, mut journal) = (None, None);
        match source {
            LogSource::File(settings) => match watch(settings, gather_time, changed.clone()) {
                Ok(watcher) => file = Some(watcher),
                Err(error) => tracing::info!(%error, "cannot watch the mail log; polling it"),
            },
            LogSource::Journal(settings) => match follow(settings, gather_time, changed.clone()) {
                Ok(child) => journal = Some(child),
                Err(error) => tracing::info!(%error, "cannot follow the journal; polling it"),
            },
        }
        Self { changed, poll_interval, gather_time, next_look: Mutex::new(Instant::now()), _file: file, journal }
    }

    /// Returns when the log may have grown, at the latest after the poll interval. Two returns caused by changes are
    /// at least the gathering time apart.
    pub(super) async fn changed(&self) {
        // A time-out has the same meaning, and there is nothing to gather.
        if tokio::time::timeout(self.poll_interval, self.changed.notified()).await.is_ok() {
            let next_look = *self.next_look();
            tokio::time::sleep_until(next_look).await;
            *self.next_look() = Instant::now() + self.gather_time;
        }
    }

    fn next_look(&self) -> MutexGuard<'_, Instant> {
        self.next_look.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        if let Some(child) = &self.journal {
            // The reading thread ends with the process.
            let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
        }
    }
}

/// Watches the directory of the log: a rotation replaces the file, and would end a watch on it.
fn watch(settings: &FileSettings, gather_time: Duration, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let dir = settings.path.parent().unwrap_or(&settings.path).to_owned();
    let path = settings.path.clone();
    let mut gathering = Gathering::every(gather_time);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let concerns_log = match &event {
            Ok(event) if event.kind.is_access() => false,
            Ok(event) => event.need_rescan() || event.paths.contains(&path),
            Err(_) => true,
        };
        if concerns_log {
            changed.notify_one();
            gathering.rest();
        }
    })?;
    watcher.watch(&dir, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// Collects notifications: Postfix writes single lines, about ten per message. After a wake-up the thread pauses, so
/// that the notifications of that time cost a single wake-up.
struct Gathering {
    time: Duration,
    rested: Option<Instant>,
}

impl Gathering {
    const fn every(time: Duration) -> Self {
        Self { time, rested: None }
    }

    /// Pauses, unless it just did: the current notification then arrived during the pause. The system merges
    /// notifications only if no other file of the directory changed in between.
    #[expect(clippy::disallowed_methods, reason = "the thread is the watcher's own and has nothing else to do")]
    fn rest(&mut self) {
        if self.rested.is_none_or(|rested| rested.elapsed() > self.time / 10) {
            std::thread::sleep(self.time);
            self.rested = Some(Instant::now());
        }
    }
}

fn follow(
    settings: &JournalSettings,
    gather_time: Duration,
    changed: Arc<Notify>,
) -> std::io::Result<Arc<Mutex<Child>>> {
    let mut child =
        journalctl(settings).args(["--follow", "--lines=0", "--output=cat", "SYSLOG_FACILITY=2"]).spawn()?;
    let output = child.stdout.take();
    let child = Arc::new(Mutex::new(child));
    let reaped = child.clone();
    std::thread::Builder::new().name("journal-waker".to_owned()).spawn(move || {
        let mut buffer = [0; 4096];
        let mut output = output;
        let mut gathering = Gathering::every(gather_time);
        while output.as_mut().is_some_and(|output| output.read(&mut buffer).is_ok_and(|read| read > 0)) {
            changed.notify_one();
            gathering.rest();
        }
        let _ = reaped.lock().unwrap_or_else(PoisonError::into_inner).wait();
    })?;
    Ok(child)
}
