//! The verdict of the security analysis as a header field of the message has it.

use std::fmt;

/// The verdict about a message, and its most severe signs of fraud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityMark {
    /// The name of the verdict.
    pub verdict: String,
    /// The codes of at most [`SecurityMark::MAX_SIGNS`] signs, the most severe first.
    pub signs: Vec<String>,
}

impl SecurityMark {
    /// The name of the field.
    pub const FIELD: &str = "X-Security-Verdict";
    /// Signs that the field names. A report that is asked for has all of them.
    pub const MAX_SIGNS: usize = 5;

    /// Reads the value of a field that this installation wrote: a verdict, and signs in a comment.
    #[must_use]
    pub fn of_field(value: &str) -> Self {
        let (verdict, comment) = value.split_once('(').unwrap_or((value, ""));
        let signs = comment.trim_end().trim_end_matches(')').split(',').map(str::trim).filter(|sign| !sign.is_empty());
        Self { verdict: verdict.trim().to_owned(), signs: signs.map(ToOwned::to_owned).collect() }
    }
}

/// The field with its line end. Each sign is on a line of its own.
impl fmt::Display for SecurityMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Self::FIELD, self.verdict)?;
        if !self.signs.is_empty() {
            write!(f, " ({})", self.signs.join(",\r\n "))?;
        }
        f.write_str("\r\n")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_mark_is_read_as_it_was_written(
            verdict in "[a-z]{1,12}",
            signs in prop::collection::vec("[a-z_]{1,24}", 0..SecurityMark::MAX_SIGNS),
        ) {
            let mark = SecurityMark { verdict, signs };
            let field = mark.to_string();
            prop_assert!(field.lines().all(|line| line.len() <= 78), "{field}");
            let value = field.split_once(": ").unwrap().1.replace("\r\n", "");
            prop_assert_eq!(SecurityMark::of_field(&value), mark);
        }

        #[test]
        fn any_value_is_read(value in "\\PC{0,40}") {
            let _ = SecurityMark::of_field(&value);
        }
    }
}
