//! Another server that sends mail back, and writes parts of its header anew.

use proptest::prelude::*;

/// What the server changes in each copy, beside the trace fields that it removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewriting {
    Nothing,
    DateWithComment,
    DateInOtherZone,
    FurtherDateBefore,
    FurtherDateBehind,
    OtherDate,
    NoDate,
    IdWithComment,
    IdInOtherCase,
    FurtherIdBefore,
    FurtherIdBehind,
}

impl Rewriting {
    pub(crate) const ALL: [Self; 11] = [
        Self::Nothing,
        Self::DateWithComment,
        Self::DateInOtherZone,
        Self::FurtherDateBefore,
        Self::FurtherDateBehind,
        Self::OtherDate,
        Self::NoDate,
        Self::IdWithComment,
        Self::IdInOtherCase,
        Self::FurtherIdBefore,
        Self::FurtherIdBehind,
    ];

    pub(crate) fn any() -> impl Strategy<Value = Self> {
        prop::sample::select(&Self::ALL[..])
    }

    /// Returns a copy that differs from all others in what is changed. `number` counts the copies.
    pub(crate) fn copy(self, message: &str, number: usize) -> String {
        let (header, body) = message.split_once("\r\n\r\n").unwrap();
        let (mut fields, mut is_removed) = (Vec::new(), false);
        for line in header.split("\r\n") {
            if !line.starts_with([' ', '\t']) {
                is_removed = ["Received:", "Delivered-To:"].iter().any(|name| line.starts_with(name));
            }
            if !is_removed {
                fields.extend(self.field(line, number));
            }
        }
        let later = format!("Date: {}", moment(20 + number / 60, number % 60, 0));
        let id = format!("Message-ID: <{number}@peer.example>");
        match self {
            Self::FurtherDateBefore => fields.insert(0, later),
            Self::FurtherDateBehind => fields.push(later),
            Self::FurtherIdBefore => fields.insert(0, id),
            Self::FurtherIdBehind => fields.push(id),
            _ => {}
        }
        format!("{}\r\n\r\n{body}", fields.join("\r\n"))
    }

    /// Returns a field as it is in the copy.
    fn field(self, line: &str, number: usize) -> Option<String> {
        let is_date = line.starts_with("Date:");
        let id = line.strip_prefix("Message-ID: ");
        Some(match (self, id) {
            (Self::NoDate, _) if is_date => return None,
            (Self::OtherDate, _) if is_date => format!("Date: {}", moment(20 + number / 60, number % 60, 0)),
            (Self::DateInOtherZone, _) if is_date => {
                let minutes = number % (12 * 60);
                let local = 10 * 60 + 15 + minutes;
                format!("Date: {}", moment(local / 60, local % 60, minutes))
            }
            (Self::DateWithComment, _) if is_date => format!("{line} (copy {number})"),
            (Self::IdWithComment, Some(id)) => format!("Message-ID: (copy {number})\r\n {id}"),
            (Self::IdInOtherCase, Some(id)) => {
                let (local_part, domain) = id.split_once('@').unwrap();
                let domain = domain.chars().enumerate().map(|(at, letter)| match number >> at.min(16) & 1 {
                    0 => letter.to_ascii_lowercase(),
                    _ => letter.to_ascii_uppercase(),
                });
                format!("Message-ID: {local_part}@{}", domain.collect::<String>())
            }
            _ => line.to_owned(),
        })
    }
}

fn moment(hour: usize, minute: usize, zone: usize) -> String {
    let (day, hour) = (20 + hour / 24, hour % 24);
    format!("{day} Nov 2026 {hour:02}:{minute:02}:30 +{:02}{:02}", zone / 60, zone % 60)
}
