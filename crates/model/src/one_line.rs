//! Short texts written by people: names and descriptions.

use crate::Violations;

/// The rule for names and descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneLine;

impl OneLine {
    /// Maximum number of characters.
    pub const MAX_CHARACTERS: usize = 200;

    /// Checks `text` and trims surrounding spaces; it may be empty.
    ///
    /// # Errors
    /// A violation for `field` when it is too long or contains a control character, such as a line break.
    pub fn parse(field: &str, text: &str) -> Result<String, Violations> {
        if text.chars().count() > Self::MAX_CHARACTERS {
            return Err(Violations::of(field, format!("must have at most {} characters", Self::MAX_CHARACTERS)));
        }
        if text.chars().any(char::is_control) {
            return Err(Violations::of(field, "must not contain control characters"));
        }
        Ok(text.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_and_one_of_several_lines_are_refused() {
        for text in ["a\nb".to_owned(), "a\0b".to_owned(), "é".repeat(201)] {
            assert!(OneLine::parse("name", &text).is_err());
        }
        assert_eq!(OneLine::parse("name", " Ann Lee ").unwrap(), "Ann Lee");
        assert_eq!(OneLine::parse("name", "").unwrap(), "");
    }
}
