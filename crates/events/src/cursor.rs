//! A position in the log of events.

use std::fmt;
use std::str::FromStr;

/// The position after one event. Positions have no gaps: the next event of the log has the next number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventCursor(u64);

impl EventCursor {
    /// Returns the position after the event with this number; the first event has number 1.
    #[must_use]
    pub const fn after_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number of the last event before this position; 0 before the first event.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a cursor from an earlier response")]
pub struct EventCursorError;

impl FromStr for EventCursor {
    type Err = EventCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Each position has one text form, so `+1` and `01` are rejected.
        let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        let number: u64 = text.parse().map_err(|_| EventCursorError)?;
        // Databases store signed integers.
        if is_canonical && i64::try_from(number).is_ok() { Ok(Self(number)) } else { Err(EventCursorError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_that_was_given_out_is_a_cursor() {
        for text in ["", "-1", "+1", "01", "1 ", "x", "9223372036854775808", "99999999999999999999"] {
            assert_eq!(text.parse::<EventCursor>(), Err(EventCursorError), "{text}");
        }
        for text in ["0", "1", "9223372036854775807"] {
            assert_eq!(text.parse::<EventCursor>().map(|cursor| cursor.to_string()), Ok(text.to_owned()));
        }
    }
}
