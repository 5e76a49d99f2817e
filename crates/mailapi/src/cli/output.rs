//! What a command writes.

use std::io::Write;

use crate::failure::{Failure, Outcome};

/// Writes a command's answer. A reader that went away (`mailapi user list | head -1`) is no failure.
pub(crate) fn print(text: &str) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Says in one line what went wrong. When even that cannot be written, the exit code still tells.
pub(super) fn log_failure(failure: &Failure) {
    let _ = writeln!(std::io::stderr(), "mailapi: {failure}");
}
