//! What is wrong with a request, field by field.

use std::fmt;

/// One broken rule: the member's name as the client wrote it (`to[2]`, `body`, `limit`) and what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the member, in the request's own terms.
    pub field: String,
    /// A sentence that says what is expected; it never repeats a secret.
    pub message: String,
}

/// The rules that one request breaks, in the order in which they were found.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
pub struct Violations(Vec<Violation>);

/// The most octets of a name that [`shown_name`] shows; a header's name must not have more.
pub(crate) const LONGEST_SHOWN_NAME: usize = 76;

/// A name that the client made up, as it is told back: without control characters, and cut when it is long, so that an
/// answer cannot become larger than the request that it refuses.
#[must_use]
pub fn shown_name(name: &str) -> String {
    let shown = &name[..name.floor_char_boundary(LONGEST_SHOWN_NAME)];
    let end = if shown.len() < name.len() { "…" } else { "" };
    format!("{}{end}", shown.escape_debug())
}

impl Violations {
    /// The most rules that are named: whoever breaks more learns enough from these, and an answer cannot become larger
    /// than the request that it refuses.
    pub const MAX: usize = 100;

    /// None yet.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Just this one.
    pub fn of(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut violations = Self::none();
        violations.add(field, message);
        violations
    }

    /// Notes one more, up to [`Violations::MAX`].
    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < Self::MAX {
            self.0.push(Violation { field: field.into(), message: message.into() });
        }
    }

    /// Notes the error of `result` under `field`, and gives its value otherwise.
    pub fn check<T, E: fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(field, error.to_string());
                None
            }
        }
    }

    /// Notes every error of `result`, each under its own field, and gives its value otherwise.
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

    /// Whether no rule was broken.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every broken rule.
    #[must_use]
    pub fn all(&self) -> &[Violation] {
        &self.0
    }

    /// `Ok` with the value when nothing was broken.
    ///
    /// # Errors
    /// The violations themselves when there is one, or when `value` is missing for a reason noted here.
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
            write!(f, "{separator}{}: {}", violation.field, violation.message)?;
        }
        Ok(())
    }
}
