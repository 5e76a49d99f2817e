//! Log lines, written in batches.
//!
//! A single line costs a system call, and requests that end at the same time wait for each other at the output. So
//! lines are gathered, and a thread writes them together. Warnings and errors are written at once, with all lines
//! before them.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Limits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchLimits {
    /// Longest time that a line waits for others; zero disables batches.
    pub(super) wait: Duration,
    /// A batch of this many bytes is written at once by the thread that logs its last line. A slow output
    /// therefore slows down the threads that log.
    pub(super) bytes: usize,
}

/// Buffer of gathered lines; clones share it.
#[derive(Clone)]
pub(super) struct Batch(Arc<Shared>);

struct Shared {
    limits: BatchLimits,
    waiting: Mutex<Waiting>,
    news: Condvar,
    // Locked before `waiting`, so that lines are written in the order in which they arrived.
    output: Mutex<Output>,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    ended: bool,
}

struct Output {
    to: Box<dyn Write + Send>,
    /// Batch that is being written. It is swapped with the waiting lines, so that both buffers keep their capacity.
    lines: Vec<u8>,
}

/// Ends the batches on drop: writes the waiting lines, and every later line at once.
pub(crate) struct BatchEnd {
    batch: Batch,
    thread: Option<JoinHandle<()>>,
}

impl Batch {
    /// Starts gathering lines for `to`.
    ///
    /// # Errors
    /// Fails when the system cannot create a thread.
    pub(super) fn start(to: impl Write + Send + 'static, limits: BatchLimits) -> io::Result<(Self, BatchEnd)> {
        let batch = Self::new(to, limits);
        let writer = batch.clone();
        let thread = thread::Builder::new().name("log".to_owned()).spawn(move || while writer.write_once() {})?;
        Ok((batch.clone(), BatchEnd { batch, thread: Some(thread) }))
    }

    fn new(to: impl Write + Send + 'static, limits: BatchLimits) -> Self {
        let output = Mutex::new(Output { to: Box::new(to), lines: Vec::new() });
        Self(Arc::new(Shared { limits, waiting: Mutex::default(), news: Condvar::new(), output }))
    }

    /// Waits for a line, then for others that may join it, and writes them; returns false at the end.
    fn write_once(&self) -> bool {
        let Shared { limits, news, .. } = &*self.0;
        let nothing = |waiting: &mut Waiting| waiting.lines.is_empty() && !waiting.ended;
        let waiting = news.wait_while(self.waiting(), nothing).unwrap_or_else(PoisonError::into_inner);
        let more = |waiting: &mut Waiting| !waiting.ended;
        let waited = news.wait_timeout_while(waiting, limits.wait, more).unwrap_or_else(PoisonError::into_inner);
        let ended = waited.0.ended;
        drop(waited);
        self.write_waiting();
        !ended
    }

    fn add(&self, line: &[u8], at_once: bool) {
        let Shared { limits, news, .. } = &*self.0;
        let mut waiting = self.waiting();
        let is_first = waiting.lines.is_empty();
        waiting.lines.extend_from_slice(line);
        let at_once = at_once || waiting.ended || limits.wait.is_zero() || waiting.lines.len() >= limits.bytes;
        drop(waiting);
        if at_once {
            self.write_waiting();
        } else if is_first {
            // Later lines join the wait that the first one starts.
            news.notify_one();
        }
    }

    fn write_waiting(&self) {
        let mut output = self.0.output.lock().unwrap_or_else(PoisonError::into_inner);
        let Output { to, lines } = &mut *output;
        std::mem::swap(lines, &mut self.waiting().lines);
        // A failure of the log output has no other place to be reported.
        let _ = to.write_all(lines).and_then(|()| to.flush());
        lines.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BatchEnd {
    fn drop(&mut self) {
        self.batch.waiting().ended = true;
        self.batch.0.news.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the next line is written together with the remaining ones.
            let _ = thread.join();
        }
    }
}

/// Receives the line of one event.
pub(super) struct Line<'a> {
    batch: &'a Batch,
    at_once: bool,
}

impl<'a> MakeWriter<'a> for Batch {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { batch: self, at_once: false }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        Line { batch: self, at_once: *event.level() <= Level::WARN }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.batch.add(bytes, self.at_once);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BatchLimits = BatchLimits { wait: Duration::from_millis(1), bytes: 8 };

    /// Records each write separately.
    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<String>>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Writes {
        fn seen(&self) -> Vec<String> {
            self.0.lock().unwrap().clone()
        }
    }

    #[test]
    fn lines_that_come_together_are_written_together() {
        let writes = Writes::default();
        let batch = Batch::new(writes.clone(), LIMITS);
        batch.add(b"one\n", false);
        batch.add(b"2\n", false);
        assert_eq!(writes.seen(), [""; 0]);
        assert!(batch.write_once());
        assert_eq!(writes.seen(), ["one\n2\n"]);
    }

    #[test]
    fn errors_and_full_batches_are_written_at_once() {
        let writes = Writes::default();
        let batch = Batch::new(writes.clone(), LIMITS);
        batch.add(b"a\n", false);
        batch.add(b"bad\n", true);
        batch.add(b"b\n", false);
        batch.add(b"long\nlong\n", false);
        assert_eq!(writes.seen(), ["a\nbad\n", "b\nlong\nlong\n"]);
        let never = BatchLimits { wait: Duration::ZERO, ..LIMITS };
        Batch::new(writes.clone(), never).add(b"c\n", false);
        assert_eq!(writes.seen().last().unwrap(), "c\n");
    }

    #[test]
    fn nothing_is_left_at_the_end_and_later_lines_are_written_too() {
        let writes = Writes::default();
        let patient = BatchLimits { wait: Duration::from_secs(3600), bytes: usize::MAX };
        let (batch, end) = Batch::start(writes.clone(), patient).unwrap();
        batch.add(b"last\n", false);
        drop(end);
        batch.add(b"later\n", false);
        assert_eq!(writes.seen(), ["last\n", "later\n"]);
    }
}
