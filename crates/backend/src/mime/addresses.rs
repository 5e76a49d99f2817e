//! Parses address fields as IMAP reports them (RFC 3501 section 7.4.2, ENVELOPE), with source routes and
//! groups, even empty ones. mail-parser drops both. Any text parses as a list of addresses, in linear time.

use super::encoded_word;
use super::fields::one_line;

/// An entry of an address field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressEntry {
    /// An address.
    Mailbox {
        /// The decoded display name; empty if missing.
        name: String,
        /// The obsolete source route, such as `@a.example,@b.example` (RFC 5322 section 4.4).
        route: Option<String>,
        /// The local part, without quotes.
        local_part: String,
        /// The domain; empty if missing.
        domain: String,
    },
    /// The start of a group with this name, which ends at [`AddressEntry::GroupEnd`].
    GroupStart(String),
    /// The end of a group.
    GroupEnd,
}

impl AddressEntry {
    /// Returns `Name <address>`, the address alone, or the name of a group.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Mailbox { name, local_part, domain, .. } => {
                let at = if domain.is_empty() { "" } else { "@" };
                let address = format!("{local_part}{at}{domain}");
                if name.is_empty() { address } else { format!("{name} <{address}>") }
            }
            Self::GroupStart(name) => format!("{name}:"),
            Self::GroupEnd => ";".to_owned(),
        }
    }
}

/// Returns the entries of a field's unfolded value.
pub(super) fn entries(value: &str) -> Vec<AddressEntry> {
    let mut reader = Reader { rest: value, comment: None };
    let (mut entries, mut is_in_group) = (Vec::new(), false);
    loop {
        let words = reader.words();
        match reader.next() {
            // Groups cannot be nested (RFC 5322 section 3.4).
            Some(':') if !is_in_group => {
                is_in_group = true;
                entries.push(AddressEntry::GroupStart(shown(&words)));
                reader.comment = None;
            }
            Some('<') => entries.push(reader.angle_address(&words)),
            Some('@') => entries.push(reader.bare_address(&words)),
            end => {
                // Words without an address name a mailbox of this server.
                if !words.is_empty() {
                    let name = reader.comment.take().unwrap_or_default();
                    entries.push(mailbox(&name, None, words.concat(), String::new()));
                }
                reader.comment = None;
                // An unclosed group ends with the field.
                if is_in_group && (end == Some(';') || end.is_none()) {
                    is_in_group = false;
                    entries.push(AddressEntry::GroupEnd);
                }
                if end.is_none() {
                    return entries;
                }
            }
        }
    }
}

fn mailbox(name: &str, route: Option<String>, local_part: String, domain: String) -> AddressEntry {
    let name = one_line(&encoded_word::decoded(name));
    AddressEntry::Mailbox { name, route, local_part, domain }
}

/// Decodes a phrase.
fn shown(words: &[String]) -> String {
    one_line(&encoded_word::decoded(&words.join(" ")))
}

/// Returns whether a character ends a word outside quotes.
fn is_special(c: char) -> bool {
    matches!(c, '<' | '>' | '@' | ',' | ':' | ';' | '(' | '"') || c.is_whitespace()
}

struct Reader<'a> {
    rest: &'a str,
    /// The last comment, which is the display name in the old form `address (name)`.
    comment: Option<String>,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// Reads words up to the next special character, without quotes and comments.
    fn words(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.chars().next() {
                Some('(') => self.skip_comment(),
                Some('"') => words.push(self.quoted()),
                Some(c) if !is_special(c) => {
                    let end = self.rest.find(is_special).unwrap_or(self.rest.len());
                    words.push(self.rest[..end].to_owned());
                    self.rest = &self.rest[end..];
                }
                _ => return words,
            }
        }
    }

    fn quoted(&mut self) -> String {
        let (mut text, mut is_escaped) = (String::new(), false);
        self.next();
        while let Some(c) = self.next() {
            match c {
                '"' if !is_escaped => break,
                '\\' if !is_escaped => is_escaped = true,
                c => {
                    text.push(c);
                    is_escaped = false;
                }
            }
        }
        text
    }

    fn skip_comment(&mut self) {
        let (mut text, mut depth, mut is_escaped) = (String::new(), 0_usize, false);
        while let Some(c) = self.next() {
            match c {
                '\\' if !is_escaped => {
                    is_escaped = true;
                    continue;
                }
                '(' if !is_escaped => depth += 1,
                ')' if !is_escaped => depth -= 1,
                c => text.push(c),
            }
            is_escaped = false;
            if depth == 0 {
                break;
            }
        }
        self.comment = Some(text);
    }

    /// Reads an address in angle brackets, after the opening bracket.
    fn angle_address(&mut self, phrase: &[String]) -> AddressEntry {
        let (mut local_part, mut route) = (self.words().concat(), None);
        // A leading `@` starts a source route.
        if local_part.is_empty() && self.rest.starts_with('@') {
            route = self.route();
            local_part = self.words().concat();
        }
        let mut domain = String::new();
        if self.rest.starts_with('@') {
            self.next();
            domain = self.words().concat();
        }
        // Skip invalid characters before the closing bracket.
        let end = self.rest.find(['>', ',', ';']).unwrap_or(self.rest.len());
        self.rest = self.rest[end..].strip_prefix('>').unwrap_or(&self.rest[end..]);
        self.comment = None;
        // Skip words after the bracket: up to the next comma they belong to this entry.
        self.words();
        self.comment = None;
        mailbox(&phrase.join(" "), route, local_part, domain)
    }

    /// Reads a source route up to its colon.
    fn route(&mut self) -> Option<String> {
        let end = self.rest.find([':', '>'])?;
        let (route, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(':')?;
        Some(route.chars().filter(|c| !c.is_whitespace()).collect())
    }

    /// Reads an address without brackets, after its `@`.
    fn bare_address(&mut self, local_part: &[String]) -> AddressEntry {
        self.comment = None;
        let domain = self.words().concat();
        let name = self.comment.take().unwrap_or_default();
        mailbox(&name, None, local_part.concat(), domain)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown_all(value: &str) -> Vec<String> {
        entries(value).iter().map(AddressEntry::shown).collect()
    }

    #[test]
    fn broken_lists_are_read_as_far_as_they_go() {
        assert_eq!(shown_all(""), [""; 0]);
        assert_eq!(shown_all(" ,, ;:<>"), [":", "", ";"]);
        assert_eq!(shown_all("ann"), ["ann"]);
        assert_eq!(shown_all("Team: ann@x.org, bob"), ["Team:", "ann@x.org", "bob", ";"]);
        assert_eq!(shown_all("Ann <ann@x.org, bob@x.org"), ["Ann <ann@x.org>", "bob@x.org"]);
        assert_eq!(shown_all("\"open <a@x>"), ["open <a@x>"]);
        assert_eq!(shown_all("a@x (open"), ["open <a@x>"]);
    }

    #[test]
    fn names_comments_and_groups_are_read() {
        assert_eq!(shown_all("ann@x.org (Ann \\(B\\) Lee)"), ["Ann (B) Lee <ann@x.org>"]);
        assert_eq!(shown_all("<ann (a)@ (b) x.org>"), ["ann@x.org"]);
        assert_eq!(
            shown_all("=?utf-8?q?J=C3=BCrgen?= \"K. (x)\" <j@x.org>, b@x.org"),
            ["Jürgen K. (x) <j@x.org>", "b@x.org"]
        );
        assert_eq!(shown_all("one:; , two: (none) ;"), ["one:", ";", "two:", ";"]);
        assert_eq!(shown_all("one: a@x;, b@x, two: c@x;"), ["one:", "a@x", ";", "b@x", "two:", "c@x", ";"]);
    }

    #[test]
    fn a_source_route_is_no_part_of_the_address() {
        let AddressEntry::Mailbox { route, local_part, domain, .. } = &entries("<@a.org, @b.org:ann@x.org>")[0] else {
            panic!("a mailbox")
        };
        assert_eq!((route.as_deref(), local_part.as_str(), domain.as_str()), (Some("@a.org,@b.org"), "ann", "x.org"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_list(value in "[a@<>,:;()\"\\\\ é=?]{0,60}") {
            let read = entries(&value);
            let starts = read.iter().filter(|entry| matches!(entry, AddressEntry::GroupStart(_))).count();
            let ends = read.iter().filter(|entry| matches!(entry, AddressEntry::GroupEnd)).count();
            prop_assert_eq!(starts, ends);
        }
    }
}
