//! Flags as two columns: bits for the system flags, words for keywords.

use mailapi_imap::{Flags, Keyword, SystemFlag};

use super::MessageStoreError;

/// `\Seen`; the triggers of the counters use the same bit.
pub(crate) const SEEN: i64 = 1;
/// `\Deleted`; an expunge selects by this bit.
pub(crate) const DELETED: i64 = 8;

/// Maximum length of a keyword in bytes. Mail programs use short ones.
const MAX_KEYWORD: usize = 100;

/// The stored bits. They are part of the file format, independent of the order in the protocol's type.
const BITS: [(SystemFlag, i64); 5] = [
    (SystemFlag::Seen, SEEN),
    (SystemFlag::Answered, 2),
    (SystemFlag::Flagged, 4),
    (SystemFlag::Deleted, DELETED),
    (SystemFlag::Draft, 16),
];

/// The columns `flags` and `keywords`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlagColumns {
    pub(crate) bits: i64,
    pub(crate) keywords: String,
}

pub(crate) fn to_columns(flags: &Flags, max_keywords: usize) -> Result<FlagColumns, MessageStoreError> {
    let is_too_long = |keyword: &Keyword| keyword.as_str().len() > MAX_KEYWORD;
    if flags.keywords().len() > max_keywords || flags.keywords().iter().any(is_too_long) {
        return Err(MessageStoreError::TooManyKeywords);
    }
    let bits = BITS.iter().filter(|(flag, _)| flags.contains(*flag)).fold(0, |bits, (_, bit)| bits | bit);
    // A keyword is an atom and contains no space.
    let keywords = flags.keywords().iter().map(|keyword| keyword.as_str()).collect::<Vec<_>>().join(" ");
    Ok(FlagColumns { bits, keywords })
}

pub(crate) fn from_columns(bits: i64, keywords: &str) -> Flags {
    with_bits(Flags::from_words(keywords.split(' ')), bits)
}

fn with_bits(mut flags: Flags, bits: i64) -> Flags {
    BITS.iter().filter(|(_, bit)| bits & bit != 0).for_each(|(flag, _)| flags.insert(*flag));
    flags
}

/// Reads the flags of many messages. Neighbours with the same keywords share their memory.
#[derive(Debug, Default)]
pub(crate) struct FlagReader {
    keywords: String,
    flags: Flags,
}

impl FlagReader {
    pub(crate) fn read(&mut self, bits: i64, keywords: &str) -> Flags {
        if keywords != self.keywords {
            self.flags = from_columns(0, keywords);
            keywords.clone_into(&mut self.keywords);
        }
        with_bits(self.flags.clone(), bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_keywords_are_refused() {
        let flags = Flags::from_words(["a", "b", "c"]);
        assert_eq!(to_columns(&flags, 2), Err(MessageStoreError::TooManyKeywords));
        let long = |length: usize| to_columns(&Flags::from_words([&*"x".repeat(length)]), 2);
        assert!(long(100).is_ok());
        assert_eq!(long(101), Err(MessageStoreError::TooManyKeywords));
    }

    #[test]
    fn neighbours_share_their_keywords() {
        let mut reader = FlagReader::default();
        for (bits, keywords) in [(SEEN, "a b"), (0, "a b"), (DELETED, ""), (0, "c"), (SEEN, "")] {
            assert_eq!(reader.read(bits, keywords), from_columns(bits, keywords));
        }
        let (one, two) = (reader.read(0, "long"), reader.read(SEEN, "long"));
        assert!(std::ptr::eq(one.keywords(), two.keywords()));
    }

    #[test]
    fn every_flag_comes_back() {
        for flag in SystemFlag::ALL {
            let flags = Flags::from_words([flag.as_str(), "$Junk", "todo"]);
            let columns = to_columns(&flags, 2).unwrap();
            assert_eq!(from_columns(columns.bits, &columns.keywords), flags);
        }
        assert_eq!(from_columns(0, ""), Flags::new());
    }
}
