//! What an import reports.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use mailapi_model::{EmailAddress, FolderName};

use super::super::{audit_mail, print};
use crate::failure::{Failure, Outcome};
use crate::terminal_text::is_command;

/// The counts of a folder, or of all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) imported: u64,
    pub(super) skipped: u64,
    pub(super) failed: u64,
}

impl Counts {
    fn text(self) -> String {
        format!("{} imported, {} skipped, {} failed", self.imported, self.skipped, self.failed)
    }
}

/// Prints what an import does.
pub(super) struct Report {
    total: Counts,
    folder: Counts,
    /// When a line of progress may be shown again; `None` if the standard error is no terminal.
    next: Option<Instant>,
}

/// How often a terminal shows the progress.
const BETWEEN: Duration = Duration::from_millis(200);

impl Report {
    pub(super) fn new() -> Self {
        let next = std::io::stderr().is_terminal().then(Instant::now);
        Self { total: Counts::default(), folder: Counts::default(), next }
    }

    pub(super) fn imported(&mut self) {
        self.folder.imported += 1;
    }

    pub(super) fn skipped(&mut self, messages: u64) {
        self.folder.skipped += messages;
    }

    /// Reports a message that was not imported.
    pub(super) fn failed(&mut self, place: &str, reason: &dyn std::fmt::Display) -> Outcome {
        self.folder.failed += 1;
        self.note(&format!("{place}: not imported: {reason}"))
    }

    /// Reports messages of a folder that the source counts and does not list.
    pub(super) fn missing(&mut self, folder: &str, messages: u64) -> Outcome {
        self.folder.failed += messages;
        self.note(&format!("{folder}: {messages} messages not imported: the server counts them and does not list them"))
    }

    /// Reports a folder or file that is left on purpose.
    pub(super) fn left(&mut self, name: &str, reason: &dyn std::fmt::Display) -> Outcome {
        self.note(&format!("{name}: skipped: {reason}"))
    }

    /// Exchanges the counts of the current folder for those of another one.
    pub(super) fn exchange(&mut self, counts: &mut Counts) {
        std::mem::swap(&mut self.folder, counts);
    }

    /// Prints a line. Another user or server has chosen the names in it, which must not control the terminal.
    pub(super) fn note(&mut self, line: &str) -> Outcome {
        self.clear();
        print(&format!("{}\n", line.replace(is_command, "\u{fffd}")))
    }

    /// Returns the number of messages of the current folder so far.
    pub(super) const fn done(&self) -> u64 {
        self.folder.imported + self.folder.skipped + self.folder.failed
    }

    /// Shows how far a folder is, on a terminal.
    pub(super) fn progress(&mut self, folder: &FolderName, all: Option<u64>) {
        let Some(next) = &mut self.next else { return };
        let now = Instant::now();
        if now < *next {
            return;
        }
        *next = now + BETWEEN;
        let done = self.done();
        let of = all.map(|all| format!(" of {all}")).unwrap_or_default();
        let _ = write!(std::io::stderr(), "\r\x1b[K{folder}: {done}{of} messages");
    }

    /// Ends a folder with a line.
    pub(super) fn folder(&mut self, folder: &FolderName, uids: &str) -> Outcome {
        let counts = std::mem::take(&mut self.folder);
        self.add(counts);
        self.note(&format!("{folder}: {}{uids}", counts.text()))
    }

    /// Reports a folder that cannot be imported.
    pub(super) fn lost_folder(&mut self, folder: &str, reason: &dyn std::fmt::Display) -> Outcome {
        self.total.failed += 1;
        self.note(&format!("{folder}: not imported: {reason}"))
    }

    /// Reports a file or directory that is not read, because another user may have put it there. The error names it.
    pub(super) fn refused(&mut self, error: &dyn std::fmt::Display) -> Outcome {
        self.total.failed += 1;
        self.note(&format!("{error}"))
    }

    fn add(&mut self, counts: Counts) {
        self.total.imported += counts.imported;
        self.total.skipped += counts.skipped;
        self.total.failed += counts.failed;
    }

    fn clear(&self) {
        if self.next.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    /// Prints the summary, which is the last line of the output.
    pub(super) fn end(mut self, email: &EmailAddress, outcome: Outcome) -> Outcome {
        let rest = std::mem::take(&mut self.folder);
        self.add(rest);
        if self.total.imported > 0 {
            audit_mail(email, self.total.imported, "mail imported");
        }
        self.note(&format!("{}: {}", email.shown(), self.total.text()))?;
        outcome.map_err(|failure| match self.total.imported {
            0 => failure,
            _ => Failure::new(format!("{failure}; the same command continues the import")),
        })?;
        if self.total.failed > 0 {
            return Err(Failure::new(format!("{} not imported", self.total.failed)));
        }
        Ok(())
    }
}
