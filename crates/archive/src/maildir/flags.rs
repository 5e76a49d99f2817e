//! Flags as letters in file names.

use mailapi_imap::{Flags, SystemFlag};

use super::lists::FileKeywords;
use crate::SourceKey;

/// Letters of the system flags, in the order in which they are written.
const LETTERS: [(char, SystemFlag); 5] = [
    ('D', SystemFlag::Draft),
    ('F', SystemFlag::Flagged),
    ('R', SystemFlag::Answered),
    ('S', SystemFlag::Seen),
    ('T', SystemFlag::Deleted),
];

/// The letter and the keyword of a message that was passed on.
const PASSED: (char, &str) = ('P', "$Forwarded");

/// The keywords of a folder, by letter and by file.
#[derive(Debug, Clone, Default)]
pub(super) struct Keywords {
    names: Vec<String>,
    files: FileKeywords,
}

impl Keywords {
    /// One for each lower-case letter.
    const MOST: usize = 26;

    /// Reads a list: a number and a keyword on each line.
    pub(super) fn read(list: &str) -> Self {
        let mut names = vec![String::new(); Self::MOST];
        for line in list.lines() {
            let Some((number, name)) = line.split_once(' ') else { continue };
            if let Some(place) = number.parse::<usize>().ok().and_then(|number| names.get_mut(number)) {
                name.clone_into(place);
            }
        }
        Self { names, files: FileKeywords::default() }
    }

    /// Whether each letter has a keyword. Dovecot keeps further keywords in its index alone.
    pub(super) fn is_full(&self) -> bool {
        self.names.len() == Self::MOST && self.names.iter().all(|name| !name.is_empty())
    }

    /// Adds keywords of files.
    pub(super) fn with_files(self, files: FileKeywords) -> Self {
        Self { files, ..self }
    }

    /// Returns the list as it is written.
    pub(super) fn list(&self) -> String {
        self.names.iter().enumerate().map(|(number, name)| format!("{number} {name}\n")).collect()
    }

    /// Returns the letter of a keyword, which may be new; `None` if all letters are taken.
    fn letter(&mut self, keyword: &str) -> Option<char> {
        let known = self.names.iter().position(|name| name.eq_ignore_ascii_case(keyword));
        let number = known.unwrap_or(self.names.len());
        if number == self.names.len() {
            if number == Self::MOST {
                return None;
            }
            self.names.push(keyword.to_owned());
        }
        Some(char::from(b'a' + u8::try_from(number).ok()?))
    }

    fn name(&self, letter: char) -> Option<&str> {
        let number = u32::from(letter).checked_sub(u32::from('a'))?;
        self.names.get(usize::try_from(number).ok()?).map(String::as_str)
    }
}

/// Reads the letters of a file name, and the keywords of the file. Returns also the number of those without a meaning.
pub(super) fn of_letters(letters: &str, file: SourceKey, keywords: &Keywords) -> (Flags, u64) {
    let words = letters.chars().map(|letter| {
        let system = LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, flag)| flag.as_str());
        system.or((letter == PASSED.0).then_some(PASSED.1)).or_else(|| keywords.name(letter)).unwrap_or_default()
    });
    Flags::with_left_out(words.chain(keywords.files.of(file)))
}

/// Returns the letters of flags, in order, and the number of keywords without a letter.
pub(super) fn to_letters(flags: &Flags, keywords: &mut Keywords) -> (String, usize) {
    let system = LETTERS.iter().filter(|(_, flag)| flags.contains(*flag)).map(|(letter, _)| *letter);
    let mut letters: Vec<char> = system.collect();
    let mut lost = 0;
    for keyword in flags.keywords() {
        match keyword.as_str() {
            // Dovecot ignores the letter, and reads the keyword.
            word if word.eq_ignore_ascii_case(PASSED.1) => {
                letters.push(PASSED.0);
                letters.extend(keywords.letter(word));
            }
            word => match keywords.letter(word) {
                Some(letter) => letters.push(letter),
                None => lost += 1,
            },
        }
    }
    letters.sort_unstable();
    (letters.into_iter().collect(), lost)
}

#[cfg(test)]
mod tests {
    use super::super::lists::key_of;
    use super::*;

    #[test]
    fn unknown_letters_and_broken_lists_are_left_out() {
        let keywords = Keywords::read("0 todo\n99 far\nx y\n2\n1 a b\n");
        let (flags, lost) = of_letters("XSabcz\u{e9}", key_of("1"), &keywords);
        assert_eq!((flags.to_string(), lost), ("\\Seen todo".to_owned(), 5));
    }

    #[test]
    fn the_twenty_seventh_keyword_has_no_letter() {
        let names: Vec<String> = (0..27).map(|number| format!("k{number:02}")).collect();
        let mut keywords = Keywords::default();
        let (letters, lost) = to_letters(&Flags::from_words(names.iter().map(String::as_str)), &mut keywords);
        assert_eq!((letters.len(), lost), (26, 1));
    }

    #[test]
    fn flags_come_back() {
        let words = ["\\Seen", "\\Answered", "\\Flagged", "\\Deleted", "\\Draft", "$Forwarded", "$Junk", "todo"];
        let (flags, mut keywords) = (Flags::from_words(words), Keywords::default());
        let (letters, lost) = to_letters(&flags, &mut keywords);
        assert_eq!((letters.as_str(), lost), ("DFPRSTabc", 0));
        assert_eq!(of_letters(&letters, key_of("1"), &Keywords::read(&keywords.list())), (flags, 0));
    }
}
