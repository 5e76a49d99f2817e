//! Lists of UIDs and keywords of Dovecot and Courier.

use std::collections::HashMap;
use std::io::{self, BufRead};

use crate::{MOST_MESSAGES, SourceKey};

/// Maximum length of a line in bytes; a longer one names no file. File names have at most 255 bytes, and the other fields of
/// a line are shorter.
const MAX_LINE: usize = 2_048;

/// Maximum size of a list in bytes: [`MOST_MESSAGES`] lines with names as Dovecot makes them.
pub(super) const MAX_LIST: u64 = 200 * MOST_MESSAGES as u64;

/// The UIDs of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UidList {
    /// UIDVALIDITY; 0, which none has, if the list is in another format or has no such number. `None` without a list.
    pub(super) validity: Option<u32>,
    /// The UID of the next message.
    pub(super) next: Option<u32>,
    /// By the key of the message, which needs less memory than its name.
    uids: HashMap<SourceKey, u32>,
}

impl UidList {
    /// Reads versions 1 and 3 of the format; any other text has no UIDs. `None` if it has too many lines.
    ///
    /// # Errors
    /// If the input fails.
    pub(super) fn read(mut input: impl BufRead) -> io::Result<Option<Self>> {
        let mut line = Vec::new();
        read_line(&mut input, &mut line)?;
        let Some((version, mut list)) = Self::of_header(&String::from_utf8_lossy(&line)) else {
            return Ok(Some(Self { validity: Some(0), ..Self::default() }));
        };
        while read_line(&mut input, &mut line)? {
            let Some((key, uid)) = entry(version, &String::from_utf8_lossy(&line)) else { continue };
            list.uids.insert(key, uid);
            if list.uids.len() > MOST_MESSAGES {
                return Ok(None);
            }
        }
        Ok(Some(list))
    }

    /// Reads the first line. Returns the version, and a list without UIDs.
    fn of_header(line: &str) -> Option<(Version, Self)> {
        let mut fields = line.split(' ');
        let (version, validity, next) = match fields.next()? {
            "1" => (Version::First, fields.next(), fields.next()),
            "3" => {
                let fields: Vec<_> = fields.collect();
                let field = |letter| fields.iter().find_map(|field| field.strip_prefix(letter));
                (Version::Third, field('V'), field('N'))
            }
            _ => return None,
        };
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).filter(|number| *number > 0);
        let validity = Some(number(validity).unwrap_or(0));
        Some((version, Self { validity, next: number(next), uids: HashMap::new() }))
    }

    /// Returns the UID of a message.
    pub(super) fn uid_of(&self, key: SourceKey) -> Option<u32> {
        self.uids.get(&key).copied()
    }

    /// Returns the header of version 3.
    pub(super) fn header(validity: u32, next: u32) -> String {
        format!("3 V{validity} N{next}\n")
    }
}

/// The keywords of files, as Courier lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileKeywords {
    names: Vec<String>,
    /// Places in `names` by keyword, while keywords are changed.
    numbers: HashMap<String, u16>,
    /// Places in `names` by the key of the message.
    files: HashMap<SourceKey, Vec<u16>>,
}

impl FileKeywords {
    /// Maximum number of keywords of a folder, and of a message. A mailbox takes a message with fewer only.
    const MOST: usize = 1_000;

    /// Reads the names of the keywords up to an empty line, and then lines of a file name, `:`, and numbers of keywords.
    /// `None` if there are too many lines.
    ///
    /// # Errors
    /// If the input fails.
    pub(super) fn read(mut input: impl BufRead) -> io::Result<Option<Self>> {
        let (mut list, mut line) = (Self::default(), Vec::new());
        while read_line(&mut input, &mut line)? && !line.is_empty() {
            if list.names.len() < Self::MOST {
                list.names.push(String::from_utf8_lossy(&line).into_owned());
            }
        }
        while read_line(&mut input, &mut line)? {
            let text = String::from_utf8_lossy(&line);
            let Some((file, numbers)) = text.split_once(':') else { continue };
            let numbers = numbers.split_ascii_whitespace().filter_map(|number| number.parse::<u16>().ok());
            list.files.insert(key_of(file), numbers.take(Self::MOST).collect());
            if list.files.len() > MOST_MESSAGES {
                return Ok(None);
            }
        }
        Ok(Some(list))
    }

    /// Replaces the keywords of a message by those of a text with one on each line.
    pub(super) fn change(&mut self, message: SourceKey, text: &str) {
        let words = text.lines().filter(|word| !word.is_empty()).take(Self::MOST);
        let numbers = words.map(|word| self.number_of(word)).collect();
        self.files.insert(message, numbers);
    }

    /// Returns the number of a keyword, which may be new; one that no keyword has if there are too many.
    fn number_of(&mut self, word: &str) -> u16 {
        if self.numbers.is_empty() {
            let names = self.names.iter().cloned();
            self.numbers = names.zip(0..).collect();
        }
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let Some(number) = u16::try_from(self.names.len()).ok().filter(|_| self.names.len() < Self::MOST) else {
            return u16::MAX;
        };
        self.names.push(word.to_owned());
        self.numbers.insert(word.to_owned(), number);
        number
    }

    /// Returns the keywords of a message; an empty one for a number that no keyword has.
    pub(super) fn of(&self, file: SourceKey) -> impl Iterator<Item = &str> {
        let numbers = self.files.get(&file).map_or(&[][..], Vec::as_slice);
        numbers.iter().map(|number| self.names.get(usize::from(*number)).map_or("", String::as_str))
    }
}

/// The versions of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    First,
    Third,
}

/// Reads a line without its end; the rest of a long one is passed over, and the line is empty then. Returns false at the end
/// of the input.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let (mut is_long, mut has_any) = (false, false);
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        let end = memchr::memchr(b'\n', available);
        let part = &available[..end.unwrap_or(available.len())];
        has_any |= !available.is_empty();
        is_long |= line.len() + part.len() > MAX_LINE;
        if is_long {
            line.clear();
        } else {
            line.extend_from_slice(part);
        }
        let (taken, is_over) = (part.len() + usize::from(end.is_some()), end.is_some() || available.is_empty());
        input.consume(taken);
        if is_over {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(has_any);
        }
    }
}

fn entry(version: Version, line: &str) -> Option<(SourceKey, u32)> {
    let (uid, rest) = line.split_once(' ')?;
    // Version 3 has further fields between the UID and the file name.
    let file = match version {
        Version::Third => rest.strip_prefix(':').or_else(|| rest.split_once(" :").map(|(_, file)| file))?,
        Version::First => rest,
    };
    let uid = uid.parse().ok().filter(|uid| *uid > 0)?;
    Some((key_of(file), uid))
}

/// Returns the key of a file: that of its name without sizes and flags, which change.
pub(super) fn key_of(file: &str) -> SourceKey {
    let unique = file.split([',', ':']).next().unwrap_or(file);
    SourceKey::of(&[b"maildir", unique.as_bytes()])
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> UidList {
        UidList::read(text.as_bytes()).unwrap().unwrap()
    }

    fn without_numbers() -> UidList {
        UidList { validity: Some(0), ..UidList::default() }
    }

    #[test]
    fn both_versions_are_read() {
        let third = "3 V1275660208 N25022 G3085f01b7f11094c501100008c4a11c1\n\
            25006 :1276528487.M364837P9451.kurkku,S=1355,W=1394:2,\n25017 W2481 G7 :1276533073.M242911P3632.kurkku:2,F\nx\n";
        let list = read(third);
        assert_eq!((list.validity, list.next), (Some(1_275_660_208), Some(25_022)));
        assert_eq!(list.uid_of(key_of("1276528487.M364837P9451.kurkku:2,S")), Some(25_006));
        assert_eq!(list.uid_of(key_of("1276533073.M242911P3632.kurkku")), Some(25_017));
        let first = read("1 77 3\n1 one:2,S\n2 two\n");
        assert_eq!((first.validity, first.next, first.uids.len()), (Some(77), Some(3), 2));
        assert_eq!(read("2 x"), without_numbers());
    }

    #[test]
    fn a_line_of_any_length_takes_no_memory() {
        let long = "9".repeat(MAX_LINE * 50);
        let list = read(&format!("3 V7 N9\n{long} :a\n5 :b\n6 :{long}"));
        assert_eq!((list.uids.len(), list.uid_of(key_of("b"))), (1, Some(5)));
        assert_eq!(read(&long), without_numbers());
    }

    #[test]
    fn numbers_at_their_ends_are_read_and_others_are_not() {
        let list = read("3 V4294967295 N4294967295\n4294967295 :a\n4294967296 :b\n0 :c\n-1 :d\n");
        assert_eq!((list.validity, list.next, list.uids.len()), (Some(u32::MAX), Some(u32::MAX), 1));
        for unusable in ["3 V4294967296 N0\n", "3 V0 N0\n", "1\n", "\n"] {
            assert_eq!(read(unusable), without_numbers(), "{unusable:?}");
        }
    }

    #[test]
    fn keywords_of_files_are_read() {
        let text = "todo\n$Junk\n\n100.M1P1.host,S=4:0 1\n200.a:1 7 x\nnothing\n";
        let list = FileKeywords::read(text.as_bytes()).unwrap().unwrap();
        let of = |file: &str| list.of(key_of(file)).collect::<Vec<_>>();
        assert_eq!(
            (of("100.M1P1.host:2,S"), of("200.a"), of("300.b")),
            (vec!["todo", "$Junk"], vec!["$Junk", ""], vec![])
        );
    }

    #[test]
    fn changed_keywords_replace_those_of_the_list() {
        let mut list = FileKeywords::read("todo\n\n100.a:0\n200.b:0\n".as_bytes()).unwrap().unwrap();
        list.change(key_of("100.a"), "\n$Junk\ntodo\n");
        list.change(key_of("200.b"), "");
        let of = |list: &FileKeywords, file: &str| list.of(key_of(file)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!((of(&list, "100.a"), of(&list, "200.b").len()), (vec!["$Junk".to_owned(), "todo".to_owned()], 0));
        let many: String = (0..FileKeywords::MOST).map(|number| format!("k{number}\n")).collect();
        list.change(key_of("300.c"), &many);
        let lost = of(&list, "300.c").iter().filter(|word| word.is_empty()).count();
        assert_eq!((list.names.len(), lost), (FileKeywords::MOST, 2));
    }

    proptest! {
        #[test]
        fn any_keywords_of_files_read_the_same_however_they_are_split(
            text in "([a-z$]{0,3}\n){0,3}\n?([a-z.]{0,4}:?[0-9 ]{0,6}|\\PC|\n){0,20}", at_once in 1_usize..50,
        ) {
            let list = FileKeywords::read(text.as_bytes()).unwrap().unwrap();
            let split = FileKeywords::read(BufReader::with_capacity(at_once, text.as_bytes())).unwrap().unwrap();
            prop_assert_eq!(split, list);
        }

        #[test]
        fn any_text_reads_the_same_however_it_is_split(
            text in "([13] |V|N|:|,|[0-9]{1,11}|\\PC|z{3000}|\n){0,40}", at_once in 1_usize..50,
        ) {
            let list = read(&text);
            prop_assert!(list.uids.values().all(|uid| *uid > 0) && list.validity.is_some());
            let split = UidList::read(BufReader::with_capacity(at_once, text.as_bytes())).unwrap().unwrap();
            prop_assert_eq!(split, list);
        }
    }
}
