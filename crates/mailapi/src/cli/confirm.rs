//! Confirmation before an irreversible removal.

use std::io::{IsTerminal, Write};

use crate::failure::{Failure, Outcome};

/// Asks on a terminal. Elsewhere the calling script has decided already.
pub(super) fn confirm(question: &str) -> Outcome {
    if !std::io::stdin().is_terminal() {
        return Ok(());
    }
    let mut stderr = std::io::stderr();
    write!(stderr, "{question} Type yes to continue: ")?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if answer.trim() == "yes" { Ok(()) } else { Err(Failure::new("nothing was removed")) }
}
