//! A private rspamd.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

use crate::guard::Guard;
use crate::ports::free_port;
use crate::signal::send_to_group;

/// Longer than the server takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// In the last line of its log before it serves.
const READY: &str = "listening for control commands";

/// A running rspamd with the check for the test message of spam filters (GTUBE) alone; stops when it is dropped.
pub struct RealRspamd {
    address: SocketAddr,
    process: Child,
    _guard: Guard,
    _directory: TempDir,
}

impl RealRspamd {
    /// Starts the server.
    ///
    /// # Panics
    /// When the package `rspamd` is not installed, or the server does not start.
    #[must_use]
    pub fn start() -> Self {
        let (directory, address) = (TempDir::new().expect("a temporary directory"), free_port());
        let place = directory.path().display();
        let config = format!(
            r#"options {{ pidfile = "{place}/pid"; tempdir = "{place}"; control_socket = "{place}/control mode=0600";
                   filters = ""; dns {{ nameserver = ["127.0.0.1:1:1"]; }} }}
               logging {{ type = "console"; level = "info"; }}
               actions {{ reject = 15; add_header = 6; greylist = 4; }}
               worker "normal" {{ bind_socket = "{address}"; count = 1; }}
            "#
        );
        let file = directory.path().join("rspamd.conf");
        fs::write(&file, config).expect("a file");
        let mut command = Command::new("rspamd");
        command.args(["--no-fork", "--insecure", "--config"]).arg(&file).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the package rspamd is installed");
        let guard = Guard::over(-i64::from(process.id()), directory.path());
        let log = BufReader::new(process.stderr.take().expect("its log"));
        let started = Self { address, process, _guard: guard, _directory: directory };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            // All of it is read, so that a full pipe never stops the program.
            for line in log.lines().map_while(Result::ok).filter(|line| line.contains(READY)) {
                let _ = sender.send(line);
            }
        });
        receiver.recv_timeout(PATIENCE).expect("rspamd is ready");
        started
    }

    /// Returns `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for RealRspamd {
    fn drop(&mut self) {
        let _ = send_to_group("TERM", &self.process);
        let _ = self.process.wait();
    }
}
