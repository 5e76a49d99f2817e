//! Output of commands.

use std::io::Write;

use crate::failure::{Failure, Outcome};
use crate::terminal_text::shown;

/// Prints a command's result. A closed pipe (`mailapi user list | head -1`) is not a failure.
pub(crate) fn print(text: &str) -> Outcome {
    print_if_open(text).map(drop)
}

/// Like `print`. Returns whether the pipe is still open, for commands that go on.
pub(super) fn print_if_open(text: &str) -> Outcome<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Prints the failure in one line. If even that fails, the exit code still reports it.
pub(super) fn log_failure(failure: &Failure) {
    let _ = writeln!(std::io::stderr(), "mailapi: {}", shown(&failure.to_string()));
}
