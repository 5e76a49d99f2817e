//! Why a command ends without having done its work.

use std::fmt;

/// One line for the person at the terminal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(String);

/// What a command answers.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure in these words; further lines are joined to the first.
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

/// Every error of the layers below says in its own words what is wrong.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}
