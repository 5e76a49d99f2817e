//! Message flags (RFC 3501 section 2.3.2).

use std::fmt;
use std::sync::Arc;

/// A system flag. `\Recent` is missing on purpose: it belongs to a session, not to a message, and clients cannot
/// store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemFlag {
    /// `\Answered`
    Answered,
    /// `\Flagged`
    Flagged,
    /// `\Deleted`: the next EXPUNGE removes the message.
    Deleted,
    /// `\Seen`
    Seen,
    /// `\Draft`
    Draft,
}

impl SystemFlag {
    /// Every system flag.
    pub const ALL: [Self; 5] = [Self::Answered, Self::Flagged, Self::Deleted, Self::Seen, Self::Draft];

    /// The flag as written, with its backslash.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "\\Answered",
            Self::Flagged => "\\Flagged",
            Self::Deleted => "\\Deleted",
            Self::Seen => "\\Seen",
            Self::Draft => "\\Draft",
        }
    }
}

/// A keyword: an atom without a backslash. Comparison ignores case.
#[derive(Debug, Clone, Eq)]
pub struct Keyword(String);

impl Keyword {
    /// Returns the keyword if `word` is an atom.
    pub fn new(word: &str) -> Option<Self> {
        let valid = !word.is_empty() && word.bytes().all(crate::token::is_atom_char);
        valid.then(|| Self(word.to_owned()))
    }

    /// The keyword as first written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn folded(&self) -> impl Iterator<Item = u8> {
        self.0.bytes().map(|byte| byte.to_ascii_lowercase())
    }
}

impl PartialEq for Keyword {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl PartialOrd for Keyword {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Keyword {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.folded().cmp(other.folded())
    }
}

/// The flags of one message, unordered. System flags take no heap memory, and clones share that of keywords: a folder
/// may have many messages with the same long keywords.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    system: u8,
    /// Sorted; `None` instead of an empty list.
    keywords: Option<Arc<Vec<Keyword>>>,
}

impl Flags {
    /// No flags.
    pub const fn new() -> Self {
        Self { system: 0, keywords: None }
    }

    /// Reads flags as written (`\Seen`, `$Junk`). Invalid flags and `\Recent` are left out.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut flags = Self::new();
        for word in words {
            flags.insert_word(word);
        }
        flags
    }

    /// Reads flags like [`Self::from_words`]. Returns also the number of words that were left out, without `\Recent`.
    pub fn with_left_out<'a>(words: impl IntoIterator<Item = &'a str>) -> (Self, u64) {
        let (mut flags, mut left_out) = (Self::new(), 0);
        for word in words {
            left_out += u64::from(!flags.insert_word(word));
        }
        (flags, left_out)
    }

    /// Adds a flag as written. Returns false if it is invalid; `\Recent` is valid but ignored.
    pub(crate) fn insert_word(&mut self, word: &str) -> bool {
        if let Some(flag) = SystemFlag::ALL.into_iter().find(|flag| flag.as_str().eq_ignore_ascii_case(word)) {
            self.insert(flag);
            return true;
        }
        match Keyword::new(word) {
            Some(keyword) => {
                self.insert_keyword(keyword);
                true
            }
            // Accept \Recent but do not store it: only the server sets it (RFC 3501 section 2.3.2).
            None => word.eq_ignore_ascii_case("\\Recent"),
        }
    }

    /// Adds a system flag.
    pub fn insert(&mut self, flag: SystemFlag) {
        self.system |= 1 << flag as u8;
    }

    /// Adds a keyword.
    pub(crate) fn insert_keyword(&mut self, keyword: Keyword) {
        if let Err(at) = self.keywords().binary_search(&keyword) {
            Arc::make_mut(self.keywords.get_or_insert_default()).insert(at, keyword);
        }
    }

    /// Whether the system flag is set.
    pub fn contains(&self, flag: SystemFlag) -> bool {
        self.system & (1 << flag as u8) != 0
    }

    /// Whether the keyword is set.
    pub(crate) fn contains_keyword(&self, keyword: &Keyword) -> bool {
        self.keywords().binary_search(keyword).is_ok()
    }

    /// The keywords.
    pub fn keywords(&self) -> &[Keyword] {
        self.keywords.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Whether no flag is set.
    pub fn is_empty(&self) -> bool {
        self.system == 0 && self.keywords.is_none()
    }

    /// The union of both sets.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut flags = self.clone();
        flags.system |= other.system;
        match &flags.keywords {
            // Sharing is possible.
            None => flags.keywords.clone_from(&other.keywords),
            Some(_) => other.keywords().iter().for_each(|keyword| flags.insert_keyword(keyword.clone())),
        }
        flags
    }

    /// The flags of this set that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut flags = self.clone();
        flags.system &= !other.system;
        if flags.keywords().iter().any(|keyword| other.contains_keyword(keyword)) {
            let kept = flags.keywords().iter().filter(|keyword| !other.contains_keyword(keyword)).cloned().collect();
            flags.keywords = Some(kept).filter(|kept: &Vec<_>| !kept.is_empty()).map(Arc::new);
        }
        flags
    }

    /// Every flag as written.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let system = SystemFlag::ALL.into_iter().filter(|&flag| self.contains(flag)).map(|flag| flag.as_str());
        system.chain(self.keywords().iter().map(|keyword| keyword.as_str()))
    }
}

impl FromIterator<SystemFlag> for Flags {
    fn from_iter<I: IntoIterator<Item = SystemFlag>>(iter: I) -> Self {
        let mut flags = Self::new();
        iter.into_iter().for_each(|flag| flags.insert(flag));
        flags
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_flags_are_left_out() {
        let flags = Flags::from_words(["\\Recent", "\\Bogus", "a b", "", "x\r\n", "\\seen", "$Junk", "$junk"]);
        assert_eq!(flags.to_string(), "\\Seen $Junk");
        assert_eq!(Flags::with_left_out(["\\Recent", "\\Bogus", "[x]", "\\Seen"]), (Flags::from_words(["\\Seen"]), 2));
    }

    #[test]
    fn sets_add_and_subtract() {
        let both = Flags::from_words(["\\Seen", "\\Deleted", "a"]);
        assert_eq!(both.without(&Flags::from_words(["\\deleted", "A"])), Flags::from_words(["\\Seen"]));
        assert_eq!(Flags::from_words(["\\Seen"]).with(&Flags::from_words(["\\Deleted", "a"])), both);
    }
}
