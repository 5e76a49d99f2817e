//! Errors of measurements.

use std::fmt;

/// An error message of one line for the terminal.
pub(crate) struct Failure(String);

/// The result of a step.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Creates a failure with this message.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Shows the bare message, since `main` prints a failure in its `Debug` form.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Converts any error by its message.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Fails with this description unless both values are equal.
pub(crate) fn same<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: found {found:?}, expected {expected:?}")))
}
