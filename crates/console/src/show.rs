//! How values look on pages.

use std::fmt;

use mailapi_model::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A time in UTC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl Moment {
    /// For the attribute `datetime`.
    pub(crate) fn iso(self) -> String {
        self.0.to_string()
    }
}

impl fmt::Display for Moment {
    /// `2026-11-20 10:15:30`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_text();
        let (date, time) = (&text.as_str()[.."2026-11-20".len()], &text.as_str()["2026-11-20T".len()..]);
        write!(f, "{date} {}", &time[.."10:15:30".len()])
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self(time)
    }
}

/// A size, such as `1.5 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1024, 0);
    while tenths >= 10 * 1024 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A segment of a path, percent-encoded.
pub(crate) fn segment(text: &str) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'@');
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(25 * 1024 * 1024), "25.0 MiB");
        assert!(bytes(u64::MAX).ends_with(" TiB"));
        let time: Timestamp = "2026-11-20T10:15:30.123Z".parse().unwrap();
        assert_eq!(Moment(time).to_string(), "2026-11-20 10:15:30");
    }

    #[test]
    fn a_segment_cannot_leave_its_path() {
        assert_eq!(segment("a/b?c#d@e.f"), "a%2Fb%3Fc%23d@e.f");
    }
}
