//! Output of the log: a queue, and a thread that writes it. A slow or blocked reader therefore delays no request.

use std::io::{self, BufWriter, Write};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

/// Maximum number of queued lines; further ones are dropped. A usual line has 400 bytes, so this is about 7 MB.
const QUEUED_LINES: usize = 16_384;
/// Bytes that are written together; no line is split.
const WRITE_BYTES: usize = 64 * 1024;
/// Pause after each write. A line after a pause is written at once, and lines of a busy server share a write: one
/// write and one wake-up for each line would cost a small request a tenth and more.
const PAUSE: Duration = Duration::from_millis(1);
/// Time limit for the queued lines at the end of the process.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Writes the queued lines on drop. Later lines are lost.
pub(super) struct LogEnd(Option<WorkerGuard>);

/// Starts the thread that writes to `to`. `report` receives the number of all dropped lines whenever it has grown.
pub(super) fn queued(
    to: impl Write + Send + 'static,
    report: impl Fn(usize) + Send + 'static,
) -> (NonBlocking, LogEnd) {
    let dropped = Arc::new(OnceLock::new());
    let to = BufWriter::with_capacity(WRITE_BYTES, to);
    let output = Output { to, dropped: Arc::clone(&dropped), reported: 0, report };
    let builder = NonBlockingBuilder::default().buffered_lines_limit(QUEUED_LINES).thread_name("log");
    let (lines, guard) = builder.finish(output);
    let _ = dropped.set(lines.error_counter());
    (lines, LogEnd(Some(guard)))
}

/// Writer of the thread, which flushes it whenever the queue is empty.
struct Output<W: Write, R> {
    to: BufWriter<W>,
    /// Set right after the start of the thread.
    dropped: Arc<OnceLock<ErrorCounter>>,
    reported: usize,
    report: R,
}

impl<W: Write, R: Fn(usize)> Write for Output<W, R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    #[expect(clippy::disallowed_methods, reason = "only this thread waits, and no decision depends on the pause")]
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        if dropped > self.reported {
            self.reported = dropped;
            (self.report)(dropped);
        }
        thread::sleep(PAUSE);
        flushed
    }
}

impl Drop for LogEnd {
    fn drop(&mut self) {
        let guard = self.0.take();
        let (ended, end) = mpsc::channel::<()>();
        // If the queue is full, the guard prints to the standard output, which may be blocked.
        thread::spawn(move || {
            drop(guard);
            drop(ended);
        });
        let _ = end.recv_timeout(END_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender};
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Longer than any write takes on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Output that blocks while the gate is locked.
    struct Gated {
        gate: Arc<Mutex<()>>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            let _ = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Log {
        gate: Arc<Mutex<()>>,
        lines: NonBlocking,
        end: LogEnd,
        written: Receiver<Vec<u8>>,
        reported: Arc<AtomicUsize>,
    }

    impl Log {
        fn start() -> Self {
            let (gate, reported) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
            let (sender, written) = mpsc::channel();
            let note = Arc::clone(&reported);
            let output = Gated { gate: Arc::clone(&gate), written: sender };
            let (lines, end) = queued(output, move |dropped| note.store(dropped, Ordering::SeqCst));
            Self { gate, lines, end, written, reported }
        }

        fn add(&self, line: &[u8]) {
            self.lines.clone().write_all(line).unwrap();
        }
    }

    #[test]
    fn a_line_is_written_without_waiting_for_others() {
        let log = Log::start();
        log.add(b"first\n");
        assert_eq!(log.written.recv_timeout(PATIENCE).unwrap(), b"first\n");
        log.add(b"second\n");
        assert_eq!(log.written.recv_timeout(PATIENCE).unwrap(), b"second\n");
        assert_eq!(log.reported.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_blocked_output_blocks_no_writer_and_the_loss_is_reported() {
        let log = Log::start();
        let added = 2 * QUEUED_LINES + WRITE_BYTES;
        let blocked = log.gate.lock().unwrap();
        for _ in 0..added {
            log.add(b"line\n");
        }
        drop(blocked);
        let dropped = log.lines.error_counter().dropped_lines();
        assert!(dropped > 0);
        drop(log.end);
        let written: Vec<u8> = log.written.try_iter().flatten().collect();
        assert_eq!(written, b"line\n".repeat(added - dropped), "the end writes what is queued");
        assert_eq!(log.reported.load(Ordering::SeqCst), dropped);
    }

    #[test]
    fn a_blocked_output_does_not_block_the_end() {
        let log = Log::start();
        let blocked = log.gate.lock().unwrap();
        log.add(b"line\n");
        drop(log.end);
        drop(blocked);
    }
}
