//! Answers of receivers.

use std::time::Duration;

use mailapi_model::Timestamp;

/// Maximum wait that a receiver can ask for. A longer one could outlast the events.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The answer of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The wait that the receiver asked for, at most one day.
    pub retry_after: Option<Duration>,
    /// The beginning of the body, at most 1 KiB; bytes that are not UTF-8 are replaced.
    pub excerpt: String,
}

/// What an answer means for the event and for the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has the event.
    Delivered,
    /// The receiver wants no more events: disable the endpoint.
    Gone,
    /// The receiver is overloaded: send nothing for this time, or for the usual wait.
    Slow(Option<Duration>),
    /// The receiver did not accept the event. Redirects count as failures: they would evade the check of addresses.
    Failed,
}

impl Answer {
    /// Returns what the answer means.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match self.status {
            200..=299 => Verdict::Delivered,
            410 => Verdict::Gone,
            429 | 503 => Verdict::Slow(self.retry_after),
            _ => Verdict::Failed,
        }
    }
}

/// Reads `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date. Anything else is ignored.
pub(crate) fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let seconds = || {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that overflows is a long wait too.
        is_number.then(|| text.parse().map_or(LONGEST_WAIT, Duration::from_secs))
    };
    let date = || {
        let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        Some(Timestamp::from_seconds(date.as_second()).since(now))
    };
    seconds().or_else(date).map(|wait| wait.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_two_hundreds_are_success() {
        for (status, expected) in [
            (100, Verdict::Failed),
            (199, Verdict::Failed),
            (200, Verdict::Delivered),
            (204, Verdict::Delivered),
            (299, Verdict::Delivered),
            (301, Verdict::Failed),
            (307, Verdict::Failed),
            (400, Verdict::Failed),
            (404, Verdict::Failed),
            (410, Verdict::Gone),
            (429, Verdict::Slow(Some(Duration::from_secs(7)))),
            (500, Verdict::Failed),
            (503, Verdict::Slow(Some(Duration::from_secs(7)))),
        ] {
            let answer = Answer { status, retry_after: Some(Duration::from_secs(7)), excerpt: String::new() };
            assert_eq!(answer.verdict(), expected, "{status}");
        }
    }

    #[test]
    fn a_wait_is_seconds_or_a_date_and_never_long() {
        let now = Timestamp::from_seconds(784_111_777);
        for (text, seconds) in [
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("86401", Some(86_400)),
            ("99999999999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Fri, 31 Dec 2100 23:59:59 GMT", Some(86_400)),
        ] {
            assert_eq!(retry_after(text, now), seconds.map(Duration::from_secs), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_short_wait_or_none(text in "[ -~]{0,40}") {
            prop_assert!(retry_after(&text, Timestamp::from_seconds(0)).is_none_or(|wait| wait <= LONGEST_WAIT));
        }
    }
}
