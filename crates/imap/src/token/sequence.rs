//! Sequence sets (RFC 3501 section 9, `sequence-set`).

use std::fmt;
use std::str::FromStr;

use super::cursor::SyntaxError;

/// One end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceNumber {
    /// A message sequence number or UID, above zero.
    Number(u32),
    /// `*`: the largest in use.
    Largest,
}

/// A set of sequence numbers or UIDs as written: ranges may overlap and run backwards. Without ranges it is `$`, the saved
/// result of a search (RFC 5182).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceSet(Vec<(SequenceNumber, SequenceNumber)>);

impl SequenceSet {
    /// The saved result of a search.
    pub(crate) const fn saved() -> Self {
        Self(Vec::new())
    }

    /// Whether this is the saved result of a search.
    pub(crate) const fn is_saved(&self) -> bool {
        self.0.is_empty()
    }

    /// Resolves `*` to `largest`. Returns sorted, inclusive ranges without overlaps.
    pub fn resolve(&self, largest: u32) -> Vec<(u32, u32)> {
        let number = |end: &SequenceNumber| match end {
            SequenceNumber::Number(number) => *number,
            SequenceNumber::Largest => largest,
        };
        let mut ranges: Vec<(u32, u32)> = self
            .0
            .iter()
            .map(|(from, to)| (number(from), number(to)))
            .map(|(from, to)| (from.min(to), from.max(to)))
            .collect();
        ranges.sort_unstable();
        merge(ranges)
    }

    /// Formats a set such as `1:3,7` in the given order. Only ascending neighbours are joined, since COPYUID
    /// pairs two sets by position (RFC 4315 section 3). Without numbers the result is empty and invalid: callers
    /// omit the item.
    pub(crate) fn compact(numbers: &[u32]) -> String {
        let runs = numbers.chunk_by(|before, after| before.checked_add(1) == Some(*after));
        let mut set = String::new();
        for run in runs {
            if !set.is_empty() {
                set.push(',');
            }
            if let [from, .., to] = run {
                set.push_str(&from.to_string());
                set.push(':');
                set.push_str(&to.to_string());
            } else {
                set.extend(run.iter().map(u32::to_string));
            }
        }
        set
    }
}

fn merge(sorted: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (from, to) in sorted {
        match merged.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

impl FromStr for SequenceSet {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        text.split(',').map(parse_range).collect::<Result<_, _>>().map(Self)
    }
}

fn parse_range(text: &str) -> Result<(SequenceNumber, SequenceNumber), SyntaxError> {
    match text.split_once(':') {
        Some((from, to)) => Ok((parse_number(from)?, parse_number(to)?)),
        None => parse_number(text).map(|number| (number, number)),
    }
}

fn parse_number(text: &str) -> Result<SequenceNumber, SyntaxError> {
    const INVALID: SyntaxError = SyntaxError("invalid sequence set");
    if text == "*" {
        return Ok(SequenceNumber::Largest);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(INVALID),
        Ok(_) if !text.bytes().all(|byte| byte.is_ascii_digit()) => Err(INVALID),
        Ok(number) => Ok(SequenceNumber::Number(number)),
    }
}

impl fmt::Display for SequenceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_saved() {
            return f.write_str("$");
        }
        for (at, (from, to)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if from == to { write!(f, "{comma}{from}")? } else { write!(f, "{comma}{from}:{to}")? }
        }
        Ok(())
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Largest => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn broken_sets_are_refused() {
        for text in ["", "0", "1,", ",1", "1:", "1::2", "4294967296", "1:2:3", "+1", "a"] {
            assert!(text.parse::<SequenceSet>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn ranges_are_merged_and_may_run_backwards() {
        let set: SequenceSet = "9:*,3:1,2:5,7".parse().unwrap();
        assert_eq!(set.resolve(8), [(1, 5), (7, 9)]);
    }

    #[test]
    fn the_order_of_numbers_is_kept() {
        assert_eq!(SequenceSet::compact(&[9, 1, 2, 3, 7, 6]), "9,1:3,7,6");
        assert_eq!(SequenceSet::compact(&[u32::MAX, 1]), "4294967295,1");
    }

    proptest! {
        #[test]
        fn any_set_is_read_or_refused(
            text in "([1-9][0-9]{0,9}|429496729[0-9]|[*0])([,:]{1,2}([1-9][0-9]{0,9}|429496729[0-9]|[*0])){0,6}|\\PC{0,9}",
            largest: u32,
        ) {
            if let Ok(set) = text.parse::<SequenceSet>() {
                let ranges = set.resolve(largest);
                prop_assert!(ranges.iter().all(|(from, to)| from <= to));
                prop_assert!(ranges.is_sorted_by(|before, after| before.1 < after.0));
            }
        }

        #[test]
        fn compact_sets_read_back(numbers in prop::collection::btree_set(1u32..200, 1..40)) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            let set: SequenceSet = SequenceSet::compact(&numbers).parse().unwrap();
            let back: Vec<u32> = set.resolve(1).into_iter().flat_map(|(from, to)| from..=to).collect();
            prop_assert_eq!(back, numbers);
        }
    }
}
