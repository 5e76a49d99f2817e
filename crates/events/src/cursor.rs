//! A position in the log of events.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::EventId;
use crate::id::IdEnd;

/// The position after one event. Positions have no gaps: the next event of the log has the next number.
///
/// Numbers of different logs are alike: of another installation, or of a database before an older copy replaced it. So
/// a position also has the end of its event's id, which shows whether the log still has this event there. Positions
/// from before that have a number alone. Positions compare by their numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventCursor {
    number: u64,
    event: Option<IdEnd>,
}

impl EventCursor {
    /// Returns the position after the event with this number; the first event has number 1.
    #[must_use]
    pub const fn after_number(number: u64) -> Self {
        Self { number, event: None }
    }

    /// Returns the position after the event with this number and this id.
    #[must_use]
    pub const fn after(number: u64, id: EventId) -> Self {
        Self { number, event: Some(id.end()) }
    }

    /// Returns the number of the last event before this position; 0 before the first event.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Returns whether both name the same event, or one of them names none.
    #[must_use]
    pub fn agrees_with(self, other: Self) -> bool {
        self.number == other.number && (self.event.is_none() || other.event.is_none() || self.event == other.event)
    }

    /// Returns whether it names an event, and not only a number.
    #[must_use]
    pub const fn names_event(self) -> bool {
        self.event.is_some()
    }
}

impl PartialEq for EventCursor {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for EventCursor {}

impl PartialOrd for EventCursor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EventCursor {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            Some(event) => write!(f, "{}-{event}", self.number),
            None => self.number.fmt(f),
        }
    }
}

/// The text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a cursor from an earlier response")]
pub struct EventCursorError;

impl FromStr for EventCursor {
    type Err = EventCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (digits, event) = text.split_once('-').map_or((text, None), |(digits, end)| (digits, Some(end)));
        let event = event.map(|end| IdEnd::parse(end).ok_or(EventCursorError)).transpose()?;
        // Each position has one text form, so `+1` and `01` are rejected.
        let is_canonical = digits.bytes().all(|byte| byte.is_ascii_digit())
            && (!digits.starts_with('0') || (digits == "0" && event.is_none()));
        let number: u64 = digits.parse().map_err(|_| EventCursorError)?;
        // Databases store signed integers.
        let is_stored = i64::try_from(number).is_ok();
        if is_canonical && is_stored { Ok(Self { number, event }) } else { Err(EventCursorError) }
    }
}

#[cfg(test)]
mod tests {
    use mailapi_model::Timestamp;

    use super::*;

    #[test]
    fn only_the_text_that_was_given_out_is_a_cursor() {
        for text in [
            "",
            "-1",
            "+1",
            "01",
            "1 ",
            "x",
            "9223372036854775808",
            "99999999999999999999",
            "1-",
            "-7qz1r3wd",
            "0-7qz1r3wd",
            "01-7qz1r3wd",
            "1-7qz1r3w",
            "1-7qz1r3wdd",
            "1-7QZ1R3WD",
            "1-7qz1r3wl",
            "1-7qz1-3wd",
            "1--qz1r3wd",
        ] {
            assert_eq!(text.parse::<EventCursor>(), Err(EventCursorError), "{text}");
        }
        for text in ["0", "1", "9223372036854775807", "4711-7qz1r3wd", "1-00000000"] {
            assert_eq!(text.parse::<EventCursor>().map(|cursor| cursor.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn a_position_names_its_event() {
        let of = |fact: &[u8]| EventId::of_fact(Timestamp::from_seconds(1_790_000_000), &[fact]);
        let (one, other) = (EventCursor::after(7, of(b"one")), EventCursor::after(7, of(b"other")));
        assert!(!one.agrees_with(other) && one.agrees_with(one));
        assert!(!one.agrees_with(EventCursor::after(8, of(b"one"))));
        let old = EventCursor::after_number(7);
        assert!(one.agrees_with(old) && old.agrees_with(one), "an older version gave out numbers");
        assert_eq!((one, one.max(old).number()), (other, 7));
        let (text, id) = (one.to_string(), of(b"one").to_string());
        assert_eq!(text, format!("7-{}", &id[id.len() - 8..]));
        assert!(text.parse::<EventCursor>().is_ok_and(|read| read.agrees_with(one) && !read.agrees_with(other)));
    }
}
