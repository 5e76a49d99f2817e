//! Violations of a request's rules, by field.

use std::fmt;

/// One violated rule: the member as the client named it (`to[2]`, `body`, `limit`), and what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the member in the request.
    pub field: String,
    /// A sentence about what is expected; it never contains a secret.
    pub message: String,
}

/// The rules that a request violates, in the order in which they were found.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
pub struct Violations(Vec<Violation>);

/// Maximum bytes of a name in [`shown_name`], and of a header field name.
pub(crate) const LONGEST_SHOWN_NAME: usize = 76;

/// Returns a client's name for an error message: control characters escaped, and truncated, so that a
/// response cannot become larger than the rejected request.
#[must_use]
pub fn shown_name(name: &str) -> String {
    let shown = &name[..name.floor_char_boundary(LONGEST_SHOWN_NAME)];
    let end = if shown.len() < name.len() { "…" } else { "" };
    format!("{}{end}", shown.escape_debug())
}

impl Violations {
    /// Maximum number of reported violations. This many are enough to fix a client, and a response cannot
    /// become larger than the rejected request.
    pub const MAX: usize = 100;

    /// Returns an empty list.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns a list with one violation.
    pub fn of(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut violations = Self::none();
        violations.add(field, message);
        violations
    }

    /// Adds a violation, up to [`Violations::MAX`].
    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < Self::MAX {
            self.0.push(Violation { field: field.into(), message: message.into() });
        }
    }

    /// Adds the error of `result` for `field`, or returns its value.
    pub fn check<T, E: fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(field, error.to_string());
                None
            }
        }
    }

    /// Adds every violation of `result`, each for its own field, or returns its value.
    pub fn merge<T>(&mut self, result: Result<T, Self>) -> Option<T> {
        let found = match result {
            Ok(value) => return Some(value),
            Err(Self(found)) => found,
        };
        for Violation { field, message } in found {
            self.add(field, message);
        }
        None
    }

    /// Returns whether there are no violations.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all violations.
    #[must_use]
    pub fn all(&self) -> &[Violation] {
        &self.0
    }

    /// Returns the value if there are no violations.
    ///
    /// # Errors
    /// The violations, if there are any or `value` is missing.
    pub fn or<T>(self, value: Option<T>) -> Result<T, Self> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => Err(self),
        }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, violation) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            // A violation of the whole has no field.
            let colon = if violation.field.is_empty() { "" } else { ": " };
            write!(f, "{separator}{}{colon}{}", violation.field, violation.message)?;
        }
        Ok(())
    }
}
