//! Reason why a command failed.

use std::fmt;

/// One line for the person at the terminal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(String);

/// Result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Creates a failure with this message; line breaks become part of one line.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self(message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Every error of the lower layers already has a message for people.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}
