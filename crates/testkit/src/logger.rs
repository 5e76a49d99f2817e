//! A logger independent of Postfix, like syslog and the journal: it survives when Postfix is killed.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// Longer than any log line of Postfix.
const LINE_BYTES: usize = 64 << 10;

/// Receives log lines of Postfix's daemons in place of postlogd(8), and appends them to a file.
pub(crate) struct Logger {
    socket: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Logger {
    /// Listens at `socket` and writes to `log`.
    pub(crate) fn start(socket: &Path, log: &Path) -> Self {
        let listener = UnixDatagram::bind(socket).expect("a socket for log lines");
        let mut file = OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let thread = std::thread::spawn(move || {
            let mut line = vec![0; LINE_BYTES];
            // An empty datagram ends this thread.
            while let Ok(length @ 1..) = listener.recv(&mut line[..LINE_BYTES - 1]) {
                line[length] = b'\n';
                file.write_all(&line[..=length]).expect("room for a line");
            }
        });
        Self { socket: socket.to_owned(), thread: Some(thread) }
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        let sent = UnixDatagram::unbound().and_then(|socket| socket.send_to(&[], &self.socket));
        if let (Ok(_), Some(thread)) = (sent, self.thread.take()) {
            // Missing log lines have already revealed a broken logger.
            let _ = thread.join();
        }
    }
}
