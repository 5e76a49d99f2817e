//! A floor in its own process, so that its processor time is separate from that of the load generator.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::outcome::{Failure, Outcome};
use crate::process::Process;

/// A running floor; killed on drop.
#[derive(Debug)]
pub(crate) struct Floor {
    child: Child,
    /// The address of its listener.
    pub(crate) address: SocketAddr,
}

impl Floor {
    /// Starts this program again as the HTTP floor.
    pub(crate) fn start() -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.arg("floor").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line.trim().parse().map_err(|_| Failure::new("the HTTP floor did not start"))?;
        Ok(Self { child, address })
    }

    pub(crate) fn process(&self) -> Process {
        Process::Other(self.child.id())
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reports the address of the listener to the parent process.
pub(crate) fn announce(address: SocketAddr) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{address}")?;
    Ok(stdout.flush()?)
}
