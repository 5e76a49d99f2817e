//! Parses address fields, with source routes and groups, even empty ones. mail-parser drops both, and reads comments
//! inside an address as its end (RFC 5322 section 3.2.2). Any text parses as a list of addresses, in linear time.

use super::encoded_word::{self, Hidden};
use super::fields::one_line;
use crate::Correspondent;

/// An entry of an address field, as IMAP reports it (RFC 3501 section 7.4.2, ENVELOPE).
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

/// An entry as written.
enum Item {
    Person(Person),
    GroupStart(Vec<String>),
    GroupEnd,
}

/// One person of a list.
struct Person {
    /// The words before an address in brackets, or all words without an address.
    words: Vec<String>,
    /// The comments, in order.
    comments: Vec<String>,
    /// Number of comments before the `@` of an address without brackets.
    early_comments: usize,
    address: Option<Address>,
}

struct Address {
    route: Option<String>,
    local_part: String,
    domain: String,
    is_in_brackets: bool,
}

/// Returns the entries of a field's unfolded value.
pub(super) fn entries(value: &str) -> Vec<AddressEntry> {
    let entry = |item| match item {
        Item::Person(person) => person.entry(),
        Item::GroupStart(words) => AddressEntry::GroupStart(shown(&words)),
        Item::GroupEnd => AddressEntry::GroupEnd,
    };
    items(value).into_iter().map(entry).collect()
}

/// Returns the people of a field's value, including the members of groups.
pub(super) fn correspondents(value: &Hidden) -> Vec<Correspondent> {
    let person = |item| match item {
        Item::Person(person) => Some(person.correspondent(value)),
        Item::GroupStart(_) | Item::GroupEnd => None,
    };
    let people = items(&value.value).into_iter().filter_map(person);
    people.filter(|person| !person.name.is_empty() || !person.email.is_empty()).collect()
}

fn items(value: &str) -> Vec<Item> {
    let mut reader = Reader { rest: value, comments: Vec::new() };
    let (mut items, mut is_in_group) = (Vec::new(), false);
    loop {
        let words = reader.words();
        match reader.next() {
            // Groups cannot be nested (RFC 5322 section 3.4).
            Some(':') if !is_in_group => {
                is_in_group = true;
                items.push(Item::GroupStart(words));
            }
            Some('<') => items.push(Item::Person(reader.in_brackets(words))),
            Some('@') => items.push(Item::Person(reader.without_brackets(&words))),
            end => {
                if !words.is_empty() {
                    let comments = std::mem::take(&mut reader.comments);
                    items.push(Item::Person(Person { words, comments, early_comments: 0, address: None }));
                }
                // An unclosed group ends with the field.
                if is_in_group && (end == Some(';') || end.is_none()) {
                    is_in_group = false;
                    items.push(Item::GroupEnd);
                }
                if end.is_none() {
                    return items;
                }
            }
        }
        reader.comments.clear();
    }
}

impl Person {
    fn entry(self) -> AddressEntry {
        let Self { words, comments, early_comments, address } = self;
        // The last comment is the display name in the old form `address (name)`.
        let comment = || comments.get(early_comments..).and_then(<[_]>::last).cloned().unwrap_or_default();
        let (name, route, local_part, domain) = match address {
            // Words without an address name a mailbox of this server.
            None => (comment(), None, words.concat(), String::new()),
            Some(address) => {
                let name = if address.is_in_brackets { words.join(" ") } else { comment() };
                (name, address.route, address.local_part, address.domain)
            }
        };
        AddressEntry::Mailbox { name: one_line(&encoded_word::decoded(&name)), route, local_part, domain }
    }

    /// Returns the person as people see it: a comment is a part of the name.
    fn correspondent(self, hidden: &Hidden) -> Correspondent {
        let Self { mut words, comments, address, .. } = self;
        let email = match address {
            Some(address) => address.shown(),
            None if words.len() == 1 && !comments.is_empty() => words.swap_remove(0),
            None => String::new(),
        };
        let (phrase, comment) = (words.join(" "), comments.join(" "));
        let name = match (phrase.is_empty(), comment.is_empty()) {
            (false, false) => format!("{phrase} ({comment})"),
            (true, _) => comment,
            (_, true) => phrase,
        };
        let shown = |text: &str| one_line(&hidden.reveal(text));
        Correspondent { name: shown(&name), email: shown(&email) }
    }
}

impl Address {
    /// Returns the address, with quotes if it needs them (RFC 5322 section 3.4.1).
    fn shown(&self) -> String {
        let Self { local_part, domain, .. } = self;
        if domain.is_empty() {
            return local_part.clone();
        }
        if !local_part.is_empty() && !local_part.contains(|c| is_special(c) || c == '\\') {
            return format!("{local_part}@{domain}");
        }
        format!("\"{}\"@{domain}", local_part.replace('\\', "\\\\").replace('"', "\\\""))
    }
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
    /// The comments of the current entry.
    comments: Vec<String>,
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
                '(' if !is_escaped => {
                    depth += 1;
                    if depth == 1 {
                        continue;
                    }
                }
                ')' if !is_escaped => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
            // A comment inside keeps its parentheses.
            text.push(c);
            is_escaped = false;
        }
        self.comments.push(text);
    }

    /// Reads an address in angle brackets, after the opening bracket.
    fn in_brackets(&mut self, phrase: Vec<String>) -> Person {
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
        // Skip words after the bracket: up to the next comma they belong to this entry.
        self.words();
        let address = Some(Address { route, local_part, domain, is_in_brackets: true });
        Person { words: phrase, comments: std::mem::take(&mut self.comments), early_comments: 0, address }
    }

    /// Reads a source route up to its colon.
    fn route(&mut self) -> Option<String> {
        let end = self.rest.find([':', '>'])?;
        let (route, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(':')?;
        Some(route.chars().filter(|c| !c.is_whitespace()).collect())
    }

    /// Reads an address without brackets, after its `@`.
    fn without_brackets(&mut self, local_part: &[String]) -> Person {
        let early_comments = self.comments.len();
        let (local_part, domain) = (local_part.concat(), self.words().concat());
        let address = Some(Address { route: None, local_part, domain, is_in_brackets: false });
        Person { words: Vec::new(), comments: std::mem::take(&mut self.comments), early_comments, address }
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

    fn people(value: &str) -> Vec<(String, String)> {
        correspondents(&Hidden::new(value)).into_iter().map(|person| (person.name, person.email)).collect()
    }

    #[test]
    fn a_comment_is_never_a_part_of_an_address() {
        for (value, name, email) in [
            ("alice(c)@example.test", "c", "alice@example.test"),
            ("(a) bob@x.test", "a", "bob@x.test"),
            ("bob@(a)x.test", "a", "bob@x.test"),
            ("bob@x(a).test", "a", "bob@x.test"),
            ("(a) bob (b) @ (c) x.test (d)", "a b c d", "bob@x.test"),
            ("Bob (Home) <bob(c)@x.test>", "Bob (Home c)", "bob@x.test"),
            ("(Bob) <bob@x.test>", "Bob", "bob@x.test"),
            ("<bob@x.test> (Bob (B) Ray)", "Bob (B) Ray", "bob@x.test"),
            ("bob@x.test (eve@far.test)", "eve@far.test", "bob@x.test"),
            ("\"eve(c)@far.test\" <bob@x.test>", "eve(c)@far.test", "bob@x.test"),
            ("bob (Bob Ray)", "Bob Ray", "bob"),
            ("Bob Ray (Home)", "Bob Ray (Home)", ""),
        ] {
            assert_eq!(people(value), [(name.to_owned(), email.to_owned())], "{value}");
        }
    }

    #[test]
    fn an_address_is_shown_in_a_form_that_can_be_sent_to() {
        for (value, email) in [
            ("\"bob\"@x.test", "bob@x.test"),
            ("\"b ob\"@x.test", "\"b ob\"@x.test"),
            ("\"b\\\"o@b\"@x.test", "\"b\\\"o@b\"@x.test"),
            ("<@a.test:bob@x.test>", "bob@x.test"),
            ("<bob>", "bob"),
        ] {
            assert_eq!(people(value), [(String::new(), email.to_owned())], "{value}");
        }
        assert_eq!(people(" ,, <>, one:;, (none)"), []);
    }

    proptest! {
        #[test]
        fn any_text_is_a_list(value in "[a@<>,:;()\"\\\\ é=?]{0,60}") {
            let _ = people(&value);
            let read = entries(&value);
            let starts = read.iter().filter(|entry| matches!(entry, AddressEntry::GroupStart(_))).count();
            let ends = read.iter().filter(|entry| matches!(entry, AddressEntry::GroupEnd)).count();
            prop_assert_eq!(starts, ends);
        }
    }
}
