//! Why a measurement ended without figures.

use std::fmt;

/// One line for the person at the terminal.
pub(crate) struct Failure(String);

/// What every step answers.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure in these words.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The words themselves, since `main` shows a failure by its `Debug` form.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Every error of the layers below says in its own words what is wrong.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Fails in these words unless both are equal.
pub(crate) fn same<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: found {found:?}, expected {expected:?}")))
}
