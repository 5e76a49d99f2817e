//! Runs programs of the mail server, such as postqueue(1), with limits on their time and output.

use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use process_wrap::std::ChildWrapper;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::own_session::spawn_in_own_session;

/// How much of a command's error output is kept.
const ERROR_BYTES: u64 = 500;

/// The result of a command that succeeded.
pub(crate) struct Succeeded<T> {
    /// Its standard output, as read.
    pub(crate) output: T,
    /// The beginning of its error output.
    pub(crate) errors: String,
}

/// A running command, killed on drop. No thread waits for it while it runs.
struct Running(Option<Box<dyn ChildWrapper>>);

impl Running {
    fn start(command: &[String]) -> io::Result<Self> {
        let [program, arguments @ ..] = command else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        spawn_in_own_session(command).map(|child| Self(Some(child)))
    }

    /// Returns its standard output and standard error. Can be called once.
    fn pipes(&mut self) -> io::Result<(Receiver, Receiver)> {
        let child = self.0.as_mut();
        let (output, errors) = child.map_or((None, None), |child| (child.stdout().take(), child.stderr().take()));
        let (Some(output), Some(errors)) = (output, errors) else { return Err(io::ErrorKind::BrokenPipe.into()) };
        Ok((Receiver::from_owned_fd(output.into())?, Receiver::from_owned_fd(errors.into())?))
    }

    /// Returns its exit status; `None` while it runs.
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.as_mut().map_or(Ok(None), |child| child.try_wait())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        if matches!(child.try_wait(), Ok(None)) && child.start_kill().is_ok() {
            // Even a killed process may take long to exit, for example on a disk that does not respond. Without a
            // thread it merely remains a zombie.
            let _ = thread::Builder::new().name("reaper".to_owned()).spawn(move || child.wait());
        }
    }
}

/// Runs the command and reads its output, which counts only if the command succeeds in time.
pub(crate) async fn run<T, F>(
    command: &[String],
    limit: Duration,
    read: impl FnOnce(BufReader<Receiver>) -> F,
) -> Result<Succeeded<T>, String>
where
    F: Future<Output = Result<T, String>>,
{
    let run = run_unlimited(command, read);
    timeout(limit, run).await.unwrap_or_else(|_| Err(format!("not done within {limit:?}")))
}

async fn run_unlimited<T, F>(
    command: &[String],
    read: impl FnOnce(BufReader<Receiver>) -> F,
) -> Result<Succeeded<T>, String>
where
    F: Future<Output = Result<T, String>>,
{
    let failed = |error: io::Error| error.to_string();
    // Registered before the start, so that no exit is missed.
    let mut ends = signal(SignalKind::child()).map_err(failed)?;
    let mut running = Running::start(command).map_err(failed)?;
    let (output, errors) = running.pipes().map_err(failed)?;
    let said = async { Ok::<_, String>(said(errors).await) };
    let (output, errors) = tokio::try_join!(read(BufReader::new(output)), said)?;
    // The pipes may close before the process exits.
    let status = loop {
        if let Some(status) = running.ended().map_err(failed)? {
            break status;
        }
        ends.recv().await;
    };
    if status.success() { Ok(Succeeded { output, errors }) } else { Err(format!("{status}: {errors}")) }
}

/// Returns the beginning of the error output for the operator, or nothing if it cannot be read. Reads the rest too,
/// so that the command does not block.
async fn said(mut errors: Receiver) -> String {
    let mut bytes = Vec::new();
    let _ = (&mut errors).take(ERROR_BYTES).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Calls `each` with every line of an output of at most `max_bytes`.
pub(crate) async fn for_each_line(
    mut output: impl AsyncBufRead + Unpin,
    max_bytes: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let (mut line, mut bytes) = (Vec::new(), 0);
    loop {
        line.clear();
        let count = (&mut output).take(max_bytes - bytes + 1).read_until(b'\n', &mut line).await;
        let count = count.map_err(|error| error.to_string())? as u64;
        if count == 0 {
            return Ok(());
        }
        bytes += count;
        if bytes > max_bytes {
            return Err(format!("the listing has more than {max_bytes} bytes"));
        }
        each(&line)?;
    }
}
