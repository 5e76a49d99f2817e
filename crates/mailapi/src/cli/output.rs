//! Output of commands.

use std::io::Write;

use crate::failure::{Failure, Outcome};

/// Prints a command's result. A closed pipe (`mailapi user list | head -1`) is not a failure.
pub(crate) fn print(text: &str) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints the failure in one line. If even that fails, the exit code still reports it.
pub(super) fn log_failure(failure: &Failure) {
    let _ = writeln!(std::io::stderr(), "mailapi: {failure}");
}
