//! Flags as two columns: bits for the system flags, words for keywords.

use std::collections::HashMap;

use mailapi_imap::{Flags, SystemFlag};

use super::MessageStoreError;

/// `\Seen`; the triggers of the counters use the same bit.
pub(crate) const SEEN: i64 = 1;
/// `\Deleted`; an expunge selects by this bit.
pub(crate) const DELETED: i64 = 8;

/// Maximum length of a keyword in bytes. Mail programs use short ones.
const MAX_KEYWORD: usize = 100;

/// Maximum length of all keywords of a message in bytes, with a space before each: what the quota takes a tiny message to
/// need at least.
const MAX_KEYWORDS: usize = 512;

/// Maximum memory of the different lists of keywords in one folder: each session that has it selected holds them.
const MAX_LISTS: usize = 4 * 1024 * 1024;

/// Memory of a list of keywords, and of a keyword, beyond their bytes.
const OVERHEAD: usize = 64;

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

/// Returns the columns of flags without the keywords that no message can have, and the number of these.
pub(crate) fn to_fitting_columns(flags: &Flags, max_keywords: usize) -> (FlagColumns, u64) {
    let mut room = MAX_KEYWORDS;
    let has_room = |word: &&str| {
        if word.starts_with('\\') {
            return true;
        }
        let is_fitting = word.len() <= MAX_KEYWORD && word.len() < room;
        if is_fitting {
            room -= word.len() + 1;
        }
        is_fitting
    };
    let words = flags.words().filter(has_room);
    let system = flags.words().count() - flags.keywords().len();
    let fitting = Flags::from_words(words.take(system + max_keywords));
    let lost = flags.keywords().len() - fitting.keywords().len();
    (columns_of(&fitting), lost as u64)
}

pub(crate) fn to_columns(flags: &Flags, max_keywords: usize) -> Result<FlagColumns, MessageStoreError> {
    match to_fitting_columns(flags, max_keywords) {
        (columns, 0) => Ok(columns),
        _ => Err(MessageStoreError::TooManyKeywords),
    }
}

pub(crate) fn columns_of(flags: &Flags) -> FlagColumns {
    let bits = BITS.iter().filter(|(flag, _)| flags.contains(*flag)).fold(0, |bits, (_, bit)| bits | bit);
    // A keyword is an atom and contains no space.
    let keywords = flags.keywords().iter().map(|keyword| keyword.as_str()).collect::<Vec<_>>().join(" ");
    FlagColumns { bits, keywords }
}

pub(crate) fn from_columns(bits: i64, keywords: &str) -> Flags {
    with_bits(Flags::from_words(keywords.split(' ')), bits)
}

fn with_bits(mut flags: Flags, bits: i64) -> Flags {
    BITS.iter().filter(|(_, bit)| bits & bit != 0).for_each(|(flag, _)| flags.insert(*flag));
    flags
}

/// Reads the flags of many messages. Those with the same keywords share their memory.
#[derive(Debug, Default)]
pub(crate) struct FlagReader {
    lists: HashMap<Box<str>, Flags>,
    memory: usize,
}

impl FlagReader {
    /// # Errors
    /// [`MessageStoreError::TooManyKeywords`] if the messages have too many different lists of keywords.
    pub(crate) fn read(&mut self, bits: i64, keywords: &str) -> Result<Flags, MessageStoreError> {
        if keywords.is_empty() {
            return Ok(with_bits(Flags::new(), bits));
        }
        if let Some(flags) = self.lists.get(keywords) {
            return Ok(with_bits(flags.clone(), bits));
        }
        let flags = from_columns(0, keywords);
        self.memory += keywords.len() + OVERHEAD * (flags.keywords().len() + 1);
        if self.memory > MAX_LISTS {
            return Err(MessageStoreError::TooManyKeywords);
        }
        self.lists.insert(keywords.into(), flags.clone());
        Ok(with_bits(flags, bits))
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
    fn keywords_that_fit_are_kept() {
        let long = "x".repeat(MAX_KEYWORD + 1);
        let flags = Flags::from_words(["\\Seen", "c", "a", "b", &long]);
        let (columns, lost) = to_fitting_columns(&flags, 2);
        assert_eq!((from_columns(columns.bits, &columns.keywords).to_string(), lost), ("\\Seen a b".to_owned(), 2));
        assert_eq!(to_fitting_columns(&Flags::from_words([&*long]), 2).1, 1);
    }

    #[test]
    fn all_keywords_of_a_message_are_bounded() {
        let words: Vec<String> = (10..60).map(|number| format!("{}{number}", "x".repeat(10))).collect();
        let flags = Flags::from_words(words.iter().map(String::as_str));
        assert_eq!(to_columns(&flags, 50), Err(MessageStoreError::TooManyKeywords));
        let (columns, lost) = to_fitting_columns(&flags, 50);
        assert_eq!((columns.keywords.len() + 1, lost), (39 * 13, 11));
        assert_eq!(to_columns(&from_columns(0, &columns.keywords), 50), Ok(columns));
    }

    #[test]
    fn messages_share_their_keywords() {
        let mut reader = FlagReader::default();
        for (bits, keywords) in [(SEEN, "a b"), (0, "a b"), (DELETED, ""), (0, "c"), (SEEN, "")] {
            assert_eq!(reader.read(bits, keywords).unwrap(), from_columns(bits, keywords));
        }
        let lists: Vec<Flags> = ["long", "c", "long"].map(|keywords| reader.read(SEEN, keywords).unwrap()).into();
        assert!(std::ptr::eq(lists[0].keywords(), lists[2].keywords()), "also with others between");
    }

    #[test]
    fn different_lists_of_keywords_are_bounded() {
        let mut reader = FlagReader::default();
        let read = (0..100_000).take_while(|number| reader.read(0, &format!("word{number}")).is_ok()).count();
        assert!((20_000..40_000).contains(&read), "{read}");
        assert!(reader.read(SEEN, "word1").is_ok() && reader.read(SEEN, "").is_ok());
        assert_eq!(reader.read(SEEN, "another"), Err(MessageStoreError::TooManyKeywords));
    }
}
