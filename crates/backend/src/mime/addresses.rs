//! Parses address fields, with source routes and groups, even empty ones. mail-parser drops both, and reads comments
//! inside an address as its end (RFC 5322 section 3.2.2). Any text parses as a list of addresses, in linear time.
//!
//! The text in angle brackets is the address, and the text before it is the name, even if it looks like an address.
//! Without brackets, the word around the `@` is the address, and other words are the name. Words are joined only at a dot
//! (RFC 5322 section 4.4).

use mailapi_model::EmailAddress;

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
        /// The local part, without quotes; empty if there is only a name.
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
    /// Returns the address alone, with quotes if it needs them; nothing for a group.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Mailbox { local_part, domain, .. } => {
                Address { route: None, local_part: local_part.clone(), domain: domain.clone() }.shown()
            }
            Self::GroupStart(_) | Self::GroupEnd => String::new(),
        }
    }

    /// Returns `Name <address>`, the address alone, or the name of a group.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Mailbox { name, local_part, domain, .. } => {
                let at = if domain.is_empty() { "" } else { "@" };
                let address = format!("{local_part}{at}{domain}");
                match (name.is_empty(), address.is_empty()) {
                    (true, _) => address,
                    (false, true) => name.clone(),
                    (false, false) => format!("{name} <{address}>"),
                }
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
    /// The words beside an address, or all words without an address.
    words: Vec<String>,
    /// The comments, in order.
    comments: Vec<String>,
    /// Number of comments before the one that is the name in the old form `address (name)`.
    early_comments: usize,
    address: Option<Address>,
}

struct Address {
    route: Option<String>,
    local_part: String,
    domain: String,
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
    // The first entry after the last comma.
    let mut first = 0;
    let mut words = reader.words();
    loop {
        match reader.next() {
            // Groups cannot be nested (RFC 5322 section 3.4).
            Some(':') if !is_in_group => {
                is_in_group = true;
                items.push(Item::GroupStart(std::mem::take(&mut words)));
            }
            Some('<') => {
                // Without a comma before it, all text before it is the name.
                let mut name: Vec<String> = items.drain(first..).flat_map(Item::into_words).collect();
                name.append(&mut words);
                items.push(Item::Person(reader.in_brackets(name)));
            }
            Some('@') => {
                let (person, behind) = reader.without_brackets(std::mem::take(&mut words));
                items.extend(person.map(Item::Person));
                if !behind.is_empty() {
                    words = behind;
                    continue;
                }
            }
            end => {
                if !words.is_empty() {
                    let (words, comments) = (std::mem::take(&mut words), std::mem::take(&mut reader.comments));
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
        first = items.len();
        words = reader.words();
    }
}

impl Item {
    /// Returns the text of a person that turned out to be a part of a name.
    fn into_words(self) -> Vec<String> {
        let Self::Person(Person { mut words, address, .. }) = self else { return Vec::new() };
        words.extend(address.map(|address| address.shown()));
        words
    }
}

impl Person {
    fn entry(self) -> AddressEntry {
        let Self { words, comments, early_comments, address } = self;
        // The last comment is the display name in the old form `address (name)`.
        let comment = || comments.get(early_comments..).and_then(<[_]>::last).cloned().unwrap_or_default();
        let (name, route, local_part, domain) = match address {
            // A word without an address names a mailbox of this server. Several words are a name.
            None if words.len() > 1 => (words.join(" "), None, String::new(), String::new()),
            None => (comment(), None, words.concat(), String::new()),
            Some(address) => {
                let name = if words.is_empty() { comment() } else { words.join(" ") };
                (name, address.route, address.local_part, address.domain)
            }
        };
        AddressEntry::Mailbox { name: one_line(&encoded_word::decoded(&name)), route, local_part, domain }
    }

    /// Returns the person as people see it. Without words, a comment is the name (RFC 8621 section 4.1.2.3). An
    /// address to which no mail can be sent is shown as a name.
    fn correspondent(self, hidden: &Hidden) -> Correspondent {
        let Self { words, comments, address, .. } = self;
        let shown = |text: &str| one_line(&hidden.reveal(text));
        // In the old form `login (Name)`, the comment says more.
        let is_login = address.is_none() && words.len() == 1 && !comments.is_empty();
        let phrase = if words.is_empty() || is_login { comments.join(" ") } else { words.join(" ") };
        let written = address.map(|address| shown(&address.shown())).unwrap_or_default();
        let email = sendable(&written).unwrap_or_default();
        let name = match (email.is_empty(), phrase.is_empty()) {
            (true, true) => written.clone(),
            (true, false) if !written.is_empty() => format!("{} <{written}>", shown(&phrase)),
            _ => shown(&phrase),
        };
        Correspondent { name, email: email.to_owned() }
    }
}

/// Returns the address to which mail can be sent, without quotes and dots that programs put around it.
fn sendable(written: &str) -> Option<&str> {
    let is_address = |text: &&str| EmailAddress::as_given(text).is_ok();
    let inner = || written.trim_matches(|c: char| matches!(c, '\'' | '`' | '.') || c.is_whitespace());
    Some(written).filter(is_address).or_else(|| Some(inner()).filter(is_address))
}

impl Address {
    /// Returns the address, with quotes if it needs them (RFC 5322 section 3.4.1).
    fn shown(&self) -> String {
        let Self { local_part, domain, .. } = self;
        if domain.is_empty() {
            return local_part.clone();
        }
        let is_dotted = !local_part.starts_with('.') && !local_part.ends_with('.') && !local_part.contains("..");
        if is_dotted && !local_part.is_empty() && !local_part.contains(|c| is_special(c) || c == '\\') {
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
    fn in_brackets(&mut self, mut phrase: Vec<String>) -> Person {
        self.skip(&['<']);
        let (mut words, mut route) = (self.words(), None);
        // The scheme of a link (RFC 6068).
        if self.rest.starts_with(':') && words.pop_if(|word| word.eq_ignore_ascii_case("mailto")).is_some() {
            self.next();
            words = self.words();
        }
        // A leading `@` starts a source route.
        if words.is_empty() && self.rest.starts_with('@') {
            route = self.route();
            words = self.words();
        }
        let local_part = joined_at_end(&mut words, true);
        let mut domain = String::new();
        if self.rest.starts_with('@') {
            self.next();
            domain = self.domain(true).0;
        }
        // Skip invalid characters before the closing bracket.
        let end = self.rest.find(['>', ',', ';']).unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
        self.skip(&['>']);
        // Skip words after the bracket: up to the next comma they belong to this entry.
        self.words();
        if phrase.is_empty() {
            phrase = words;
        }
        let address = Some(Address { route, local_part, domain });
        let comments = std::mem::take(&mut self.comments);
        Person { words: phrase, early_comments: comments.len(), comments, address }
    }

    fn skip(&mut self, these: &[char]) {
        self.rest = self.rest.trim_start_matches(|c: char| these.contains(&c));
    }

    /// Reads a domain, and the words behind it.
    fn domain(&mut self, is_in_brackets: bool) -> (String, Vec<String>) {
        self.rest = self.rest.trim_start();
        // An address literal (RFC 5321 section 4.1.3) contains colons.
        if let Some(end) = self.rest.find(']').filter(|_| self.rest.starts_with('[')) {
            let (literal, rest) = self.rest.split_at(end + 1);
            self.rest = rest;
            return (literal.to_owned(), self.words());
        }
        let mut words = self.words();
        (joined_at_start(&mut words, is_in_brackets), words)
    }

    /// Reads a source route up to its colon.
    fn route(&mut self) -> Option<String> {
        let end = self.rest.find([':', '>'])?;
        let (route, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(':')?;
        Some(route.chars().filter(|c| !c.is_whitespace()).collect())
    }

    /// Reads an address without brackets, after its `@`; returns also words that belong to the next entry. There is no
    /// person yet if an address in brackets follows, for which all of this is the name.
    fn without_brackets(&mut self, mut words: Vec<String>) -> (Option<Person>, Vec<String>) {
        let early_comments = self.comments.len();
        let local_part = joined_at_end(&mut words, false);
        let (domain, behind) = self.domain(false);
        if self.rest.starts_with('<') {
            words.push(format!("{local_part}@{domain}"));
            words.extend(behind);
            return (None, words);
        }
        let is_next = self.rest.starts_with('@') && !behind.is_empty();
        let next = if is_next {
            behind
        } else {
            words.extend(behind);
            Vec::new()
        };
        let comments = std::mem::take(&mut self.comments);
        let address = Some(Address { route: None, local_part, domain });
        (Some(Person { words, comments, early_comments, address }), next)
    }
}

/// Takes the last word, with words before it that a dot joins to it.
fn joined_at_end(words: &mut Vec<String>, is_in_brackets: bool) -> String {
    let mut start = words.len().saturating_sub(1);
    while start > 0 && are_joined(&words[start - 1], &words[start], is_in_brackets) {
        start -= 1;
    }
    words.split_off(start).concat()
}

/// Takes the first word, with words after it that a dot joins to it.
fn joined_at_start(words: &mut Vec<String>, is_in_brackets: bool) -> String {
    let mut end = words.len().min(1);
    while end < words.len() && are_joined(&words[end - 1], &words[end], is_in_brackets) {
        end += 1;
    }
    words.drain(..end).collect()
}

/// Returns whether a dot joins two words with blanks or comments between them. Before an address without brackets, a word
/// such as `B.` is an initial.
fn are_joined(one: &str, next: &str, is_in_brackets: bool) -> bool {
    next.starts_with('.') || one == "." || (is_in_brackets && one.ends_with('.'))
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
            ("bob@x(a). test", "a", "bob@x.test"),
            ("bob@x(a) . test", "a", "bob@x.test"),
            ("(a) bob (b) @ (c) x.test (d)", "a b c d", "bob@x.test"),
            ("Bob (Home) <bob(c)@x.test>", "Bob", "bob@x.test"),
            ("Bob (Home) Ray <bob@x.test>", "Bob Ray", "bob@x.test"),
            ("(Bob) <bob@x.test>", "Bob", "bob@x.test"),
            ("<bob@x.test> (Bob (B) Ray)", "Bob (B) Ray", "bob@x.test"),
            ("bob@x.test (eve@far.test)", "eve@far.test", "bob@x.test"),
            ("\"eve(c)@far.test\" <bob@x.test>", "eve(c)@far.test", "bob@x.test"),
            ("bob (Bob Ray)", "Bob Ray", ""),
            ("Bob Ray (Home)", "Bob Ray", ""),
        ] {
            assert_eq!(people(value), [(name.to_owned(), email.to_owned())], "{value}");
        }
    }

    #[test]
    fn what_stands_in_brackets_is_the_address() {
        for (value, name, email) in [
            ("ann@x.test <bob@y.test>", "ann@x.test", "bob@y.test"),
            ("Ann of ann@x.test now <bob@y.test>", "Ann of ann@x.test now", "bob@y.test"),
            ("Shop@Home <bob@y.test>", "Shop@Home", "bob@y.test"),
            ("a@x.test b@x.test <bob@y.test>", "a@x.test b@x.test", "bob@y.test"),
            ("Bob <<bob@y.test>>", "Bob", "bob@y.test"),
            ("Bob <bob@y.test>>, ", "Bob", "bob@y.test"),
            ("Bob <mailto:bob@y.test>", "Bob", "bob@y.test"),
            ("<Bob Ray bob@y.test>", "Bob Ray", "bob@y.test"),
            ("Bob <\"bob@y.test\">", "Bob", "bob@y.test"),
            ("'bob@y.test' <'bob@y.test'>", "'bob@y.test'", "bob@y.test"),
            ("Bob <bob@y.test.>", "Bob", "bob@y.test"),
            ("Bob <bob. ray@y.test>", "Bob", "bob.ray@y.test"),
        ] {
            let read = people(value);
            assert_eq!(read.first(), Some(&(name.to_owned(), email.to_owned())), "{value}");
        }
    }

    #[test]
    fn words_beside_an_address_are_never_glued_to_it() {
        let one = |name: &str, email: &str| vec![(name.to_owned(), email.to_owned())];
        let two = |first: &str, second: &str| [one("", first), one("", second)].concat();
        for (value, expected) in [
            ("Big Bob bob@x.test", one("Big Bob", "bob@x.test")),
            ("Bob B. bob@x.test", one("Bob B.", "bob@x.test")),
            ("\"Ray, Bob\" bob@x.test", one("Ray, Bob", "bob@x.test")),
            ("bob@x.test Bob Ray", one("Bob Ray", "bob@x.test")),
            ("bob@x.test. Bob", one("Bob", "bob@x.test")),
            ("a@x.test b@y.test", two("a@x.test", "b@y.test")),
            ("a@x.test\tb@y.test", two("a@x.test", "b@y.test")),
            ("a@x.test; b@y.test", two("a@x.test", "b@y.test")),
            ("a@x.test Bob b@y.test", [one("", "a@x.test"), one("Bob", "b@y.test")].concat()),
            ("bob . ray @ x . test", one("", "bob.ray@x.test")),
        ] {
            assert_eq!(people(value), expected, "{value}");
        }
    }

    #[test]
    fn an_address_is_shown_in_a_form_that_can_be_sent_to() {
        for (value, email) in [
            ("\"bob\"@x.test", "bob@x.test"),
            ("\"b ob\"@x.test", "\"b ob\"@x.test"),
            ("\"b\\\"o@b\"@x.test", "\"b\\\"o@b\"@x.test"),
            ("b..ob@x.test", "\"b..ob\"@x.test"),
            ("<@a.test:bob@x.test>", "bob@x.test"),
        ] {
            assert_eq!(people(value), [(String::new(), email.to_owned())], "{value}");
        }
        for (value, name) in [
            ("<bob>", "bob"),
            ("Bob <bob>", "Bob <bob>"),
            ("bob@[192.0.2.1]", "bob@[192.0.2.1]"),
            ("Bob <bob@[IPv6:2001:db8::1]>", "Bob <bob@[IPv6:2001:db8::1]>"),
            ("bob@x_y.test", "bob@x_y.test"),
        ] {
            assert_eq!(people(value), [(name.to_owned(), String::new())], "{value}");
        }
        assert_eq!(people(" ,, <>, one:;, (none)"), []);
    }

    proptest! {
        #[test]
        fn any_text_is_a_list(value in "[a@<>,:;()\"\\\\ é=?]{0,60}") {
            for (_, email) in people(&value) {
                prop_assert!(email.is_empty() || EmailAddress::as_given(&email).is_ok(), "{}", email);
            }
            let read = entries(&value);
            let starts = read.iter().filter(|entry| matches!(entry, AddressEntry::GroupStart(_))).count();
            let ends = read.iter().filter(|entry| matches!(entry, AddressEntry::GroupEnd)).count();
            prop_assert_eq!(starts, ends);
        }
    }
}
