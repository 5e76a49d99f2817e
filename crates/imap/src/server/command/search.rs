//! SEARCH: the tree of keys, and its evaluation for one message.

use jiff::civil::Date;

use super::CommandError;
use super::message_set::{MessageSet, SearchSet, UidRanges};
use super::select::modseq;
use crate::datetime::parse_date;
use crate::flag::{Flags, Keyword, SystemFlag};
use crate::server::ObjectId;
use crate::server::object_id::is_object_id;
use crate::token::{Cursor, SyntaxError};

/// The arguments of SEARCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchCommand {
    /// Whether the response contains UIDs: true for UID SEARCH.
    pub uid: bool,
    /// The options of `RETURN (...)` (RFC 4731); `None` for a plain SEARCH response.
    pub results: Option<SearchReturn>,
    /// Whether the command names a charset.
    pub charset: bool,
    /// The criteria.
    pub key: SearchKey<SearchSet>,
}

/// The parts of an ESEARCH response. `RETURN ()` means ALL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchReturn {
    /// The smallest number.
    pub min: bool,
    /// The number of matches.
    pub max: bool,
    /// All numbers, as a set.
    pub count: bool,
    /// All of them, as a set.
    pub all: bool,
    /// Keep the result for `$` (RFC 5182).
    pub save: bool,
}

/// A search criterion. `S` names messages: as written by the client, or as UIDs for the host.
///
/// Texts match as substrings, after decoding and without regard to case. [`SearchSubject`] implements this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchKey<S = UidRanges> {
    /// Every message.
    All,
    /// Messages in a set.
    Messages(S),
    /// A system flag is set.
    Flag(SystemFlag),
    /// A keyword is set.
    Keyword(Keyword),
    /// The day of the internal date, in UTC.
    Received(DateTest, Date),
    /// The day on which the message was added to the mailbox, in UTC (RFC 8514).
    Saved(DateTest, Date),
    /// The day in the Date header, without regard to time and zone.
    Sent(DateTest, Date),
    /// Received within so many seconds (RFC 5032).
    Younger(u32),
    /// Received so many seconds ago, or earlier (RFC 5032).
    Older(u32),
    /// This modification sequence or a later one (RFC 7162 section 3.1.5).
    Modseq(u64),
    /// The identifier of the content (RFC 8474).
    EmailId(String),
    /// More octets than this.
    Larger(u32),
    /// Fewer octets than this.
    Smaller(u32),
    /// A header field contains a text; the empty text matches any message with this field.
    Header {
        /// The field's name.
        name: String,
        /// The text.
        text: String,
    },
    /// The body contains a text.
    Body(String),
    /// The header or the body contains a text.
    Text(String),
    /// The message does not match the key.
    Not(Box<Self>),
    /// The message matches at least one key.
    Or(Box<Self>, Box<Self>),
    /// The message matches every key.
    And(Vec<Self>),
}

/// A comparison of days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateTest {
    /// Earlier than the given day.
    Before,
    /// On it.
    On,
    /// On it or later.
    Since,
}

impl DateTest {
    /// Compares `day` with the `given` one.
    pub fn holds(self, day: Date, given: Date) -> bool {
        match self {
            Self::Before => day < given,
            Self::On => day == given,
            Self::Since => day >= given,
        }
    }
}

/// A message to search. The text methods may be slow, so they are called last.
pub trait SearchSubject {
    /// Its UID.
    fn uid(&self) -> u32;
    /// Its flags.
    fn flags(&self) -> &Flags;
    /// The modification sequence of its last change.
    fn modseq(&self) -> u64;
    /// The identifier of its content.
    fn email_id(&self) -> ObjectId;
    /// The seconds since its internal date.
    fn age(&self) -> u64;
    /// The day of its internal date, in UTC.
    fn received(&self) -> Date;
    /// The day on which it was added to the mailbox, in UTC.
    fn saved(&self) -> Date;
    /// The day in its Date header as written there; `None` if there is no readable one.
    fn sent(&self) -> Option<Date>;
    /// Its size in octets.
    fn size(&self) -> u64;
    /// Whether a field of this name contains `text` after decoding; case is ignored.
    fn header_contains(&self, name: &str, text: &str) -> bool;
    /// Whether the decoded body contains `text`; case is ignored.
    fn body_contains(&self, text: &str) -> bool;
    /// Whether the decoded header or body contains `text`; case is ignored.
    fn text_contains(&self, text: &str) -> bool;
}

impl SearchKey {
    /// Whether a message matches.
    pub fn matches(&self, subject: &dyn SearchSubject) -> bool {
        match self {
            Self::All => true,
            Self::Messages(uids) => uids.contains(subject.uid()),
            Self::Flag(flag) => subject.flags().contains(*flag),
            Self::Keyword(keyword) => subject.flags().contains_keyword(keyword),
            Self::Received(test, given) => test.holds(subject.received(), *given),
            Self::Saved(test, given) => test.holds(subject.saved(), *given),
            Self::Sent(test, given) => subject.sent().is_some_and(|day| test.holds(day, *given)),
            Self::Younger(seconds) => subject.age() <= u64::from(*seconds),
            Self::Older(seconds) => subject.age() >= u64::from(*seconds),
            Self::Modseq(modseq) => subject.modseq() >= *modseq,
            Self::EmailId(id) => subject.email_id().to_string() == *id,
            Self::Larger(size) => subject.size() > u64::from(*size),
            Self::Smaller(size) => subject.size() < u64::from(*size),
            Self::Header { name, text } => subject.header_contains(name, text),
            Self::Body(text) => subject.body_contains(text),
            Self::Text(text) => subject.text_contains(text),
            Self::Not(key) => !key.matches(subject),
            Self::Or(one, other) => one.matches(subject) || other.matches(subject),
            Self::And(keys) => keys.iter().all(|key| key.matches(subject)),
        }
    }
}

impl<S> SearchKey<S> {
    /// Whether the key needs more than flags, dates, sizes and UIDs.
    pub(crate) fn needs_text(&self) -> bool {
        match self {
            Self::Header { .. } | Self::Body(_) | Self::Text(_) => true,
            Self::Not(key) => key.needs_text(),
            Self::Or(one, other) => one.needs_text() || other.needs_text(),
            Self::And(keys) => keys.iter().any(Self::needs_text),
            _ => false,
        }
    }

    /// Whether the key compares modification sequences.
    pub(crate) fn uses_modseq(&self) -> bool {
        match self {
            Self::Modseq(_) => true,
            Self::Not(key) => key.uses_modseq(),
            Self::Or(one, other) => one.uses_modseq() || other.uses_modseq(),
            Self::And(keys) => keys.iter().any(Self::uses_modseq),
            _ => false,
        }
    }

    /// Converts the named messages and keeps the tree.
    pub(crate) fn map_messages<T, E>(self, map: &impl Fn(S) -> Result<T, E>) -> Result<SearchKey<T>, E> {
        Ok(match self {
            Self::Messages(set) => SearchKey::Messages(map(set)?),
            Self::Not(key) => SearchKey::Not(Box::new(key.map_messages(map)?)),
            Self::Or(one, other) => SearchKey::Or(Box::new(one.map_messages(map)?), Box::new(other.map_messages(map)?)),
            Self::And(keys) => {
                SearchKey::And(keys.into_iter().map(|key| key.map_messages(map)).collect::<Result<_, _>>()?)
            }
            Self::All => SearchKey::All,
            Self::Flag(flag) => SearchKey::Flag(flag),
            Self::Keyword(keyword) => SearchKey::Keyword(keyword),
            Self::Received(test, day) => SearchKey::Received(test, day),
            Self::Saved(test, day) => SearchKey::Saved(test, day),
            Self::Sent(test, day) => SearchKey::Sent(test, day),
            Self::Younger(seconds) => SearchKey::Younger(seconds),
            Self::Older(seconds) => SearchKey::Older(seconds),
            Self::Modseq(modseq) => SearchKey::Modseq(modseq),
            Self::EmailId(id) => SearchKey::EmailId(id),
            Self::Larger(size) => SearchKey::Larger(size),
            Self::Smaller(size) => SearchKey::Smaller(size),
            Self::Header { name, text } => SearchKey::Header { name, text },
            Self::Body(text) => SearchKey::Body(text),
            Self::Text(text) => SearchKey::Text(text),
        })
    }

    fn not(self) -> Self {
        Self::Not(Box::new(self))
    }

    fn and(mut keys: Vec<Self>) -> Self {
        // Slow keys come last, so that fast ones exclude most messages first.
        keys.sort_by_key(Self::needs_text);
        if keys.len() == 1 { keys.remove(0) } else { Self::And(keys) }
    }
}

pub(super) type ParsedKey = SearchKey<SearchSet>;

pub(super) fn command(cursor: &mut Cursor, uid: bool) -> Result<SearchCommand, CommandError> {
    cursor.space()?;
    let results = result_options(cursor)?;
    let has_charset = cursor.try_keyword("CHARSET");
    let key = if has_charset {
        cursor.space()?;
        charset_and_key(cursor)
    } else {
        keys(cursor)
    };
    Ok(SearchCommand { uid, results, charset: has_charset, key: key.map_err(|error| error.of_search(results))? })
}

/// Reads a charset and keys up to the end of the command.
pub(super) fn charset_and_key(cursor: &mut Cursor) -> Result<ParsedKey, CommandError> {
    if charset(&cursor.astring()?)? == SearchCharset::Latin1 {
        cursor.read_latin_1();
    }
    cursor.space()?;
    keys(cursor)
}

/// Reads `RETURN (...) `, if present.
pub(super) fn result_options(cursor: &mut Cursor) -> Result<Option<SearchReturn>, SyntaxError> {
    if !cursor.try_keyword("RETURN") {
        return Ok(None);
    }
    cursor.space()?;
    let results = search_return(cursor)?;
    cursor.space()?;
    Ok(Some(results))
}

/// Reads keys up to the end of the command; all of them must match.
fn keys(cursor: &mut Cursor) -> Result<ParsedKey, CommandError> {
    let mut keys = vec![key(cursor)?];
    while !cursor.at_end() {
        cursor.space()?;
        keys.push(key(cursor)?);
    }
    Ok(SearchKey::and(keys))
}

fn search_return(cursor: &mut Cursor) -> Result<SearchReturn, SyntaxError> {
    let mut results = SearchReturn::default();
    cursor.list(|cursor| {
        match cursor.keyword()?.as_str() {
            "MIN" => results.min = true,
            "MAX" => results.max = true,
            "COUNT" => results.count = true,
            "ALL" => results.all = true,
            "SAVE" => results.save = true,
            _ => return Err(SyntaxError("unknown search result")),
        }
        Ok(())
    })?;
    if results == SearchReturn::default() {
        results.all = true;
    }
    Ok(results)
}

/// The charset of the texts in a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchCharset {
    Utf8,
    Latin1,
}

fn charset(name: &[u8]) -> Result<SearchCharset, CommandError> {
    let is_one_of = |names: &[&str]| names.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
    // Dovecot accepts the spelling without a hyphen, too.
    if is_one_of(&["UTF-8", "UTF8", "US-ASCII", "ASCII"]) {
        Ok(SearchCharset::Utf8)
    } else if is_one_of(&["ISO-8859-1", "ISO8859-1", "LATIN1"]) {
        Ok(SearchCharset::Latin1)
    } else {
        Err(CommandError::Charset { saves: false })
    }
}

fn key(cursor: &mut Cursor) -> Result<ParsedKey, CommandError> {
    if cursor.peek() == Some(b'(') {
        let keys = cursor.list(key)?;
        return if keys.is_empty() {
            Err(SyntaxError("expected a search key").into())
        } else {
            Ok(SearchKey::and(keys))
        };
    }
    if cursor.at_sequence_set() {
        return messages(cursor, false);
    }
    let name = cursor.keyword()?;
    if let Some(key) = without_argument(&name) {
        return Ok(key);
    }
    cursor.space()?;
    match name.as_str() {
        "NOT" => Ok(cursor.descend(key)?.not()),
        "OR" => cursor.descend(|cursor| {
            let one = key(cursor)?;
            cursor.space()?;
            Ok(SearchKey::Or(Box::new(one), Box::new(key(cursor)?)))
        }),
        "UID" => messages(cursor, true),
        _ => with_argument(&name, cursor),
    }
}

/// Reads `[entry-name entry-type] n`. The entry may name one flag, but this server has one sequence for all of a message,
/// as RFC 7162 section 3.1.5 allows.
fn search_modseq(cursor: &mut Cursor) -> Result<u64, SyntaxError> {
    if cursor.peek() == Some(b'"') {
        cursor.astring()?;
        cursor.space()?;
        if !["priv", "shared", "all"].iter().any(|word| cursor.try_keyword(word)) {
            return Err(SyntaxError("expected an entry type"));
        }
        cursor.space()?;
    }
    modseq(cursor)
}

fn messages(cursor: &mut Cursor, uid: bool) -> Result<ParsedKey, CommandError> {
    Ok(SearchKey::Messages(SearchSet::Set(MessageSet { uid, set: cursor.sequence_set()? })))
}

fn without_argument(name: &str) -> Option<ParsedKey> {
    let positive = match name {
        // Every mailbox here has save dates (RFC 8514 section 4.3).
        "ALL" | "SAVEDATESUPPORTED" => return Some(SearchKey::All),
        "RECENT" => return Some(recent()),
        "OLD" => return Some(recent().not()),
        "NEW" => return Some(SearchKey::And(vec![recent(), SearchKey::Flag(SystemFlag::Seen).not()])),
        name => name.strip_prefix("UN").unwrap_or(name),
    };
    let flag = SystemFlag::ALL.into_iter().find(|flag| flag.as_str()[1..].eq_ignore_ascii_case(positive))?;
    let key = SearchKey::Flag(flag);
    Some(if positive.len() == name.len() { key } else { key.not() })
}

const fn recent() -> ParsedKey {
    SearchKey::Messages(SearchSet::Recent)
}

fn with_argument(name: &str, cursor: &mut Cursor) -> Result<ParsedKey, CommandError> {
    Ok(match name {
        "KEYWORD" => SearchKey::Keyword(keyword(cursor)?),
        "UNKEYWORD" => SearchKey::Keyword(keyword(cursor)?).not(),
        "BEFORE" => SearchKey::Received(DateTest::Before, date(cursor)?),
        "ON" => SearchKey::Received(DateTest::On, date(cursor)?),
        "SINCE" => SearchKey::Received(DateTest::Since, date(cursor)?),
        "SAVEDBEFORE" => SearchKey::Saved(DateTest::Before, date(cursor)?),
        "SAVEDON" => SearchKey::Saved(DateTest::On, date(cursor)?),
        "SAVEDSINCE" => SearchKey::Saved(DateTest::Since, date(cursor)?),
        "SENTBEFORE" => SearchKey::Sent(DateTest::Before, date(cursor)?),
        "SENTON" => SearchKey::Sent(DateTest::On, date(cursor)?),
        "SENTSINCE" => SearchKey::Sent(DateTest::Since, date(cursor)?),
        "YOUNGER" => SearchKey::Younger(interval(cursor)?),
        "OLDER" => SearchKey::Older(interval(cursor)?),
        "MODSEQ" => SearchKey::Modseq(search_modseq(cursor)?),
        "EMAILID" => SearchKey::EmailId(object_id(cursor)?),
        // No message has one.
        "THREADID" => object_id(cursor).map(|_| SearchKey::All.not())?,
        "LARGER" => SearchKey::Larger(cursor.number()?),
        "SMALLER" => SearchKey::Smaller(cursor.number()?),
        "BODY" => SearchKey::Body(text(cursor)?),
        "TEXT" => SearchKey::Text(text(cursor)?),
        "HEADER" => {
            let name = text(cursor)?;
            cursor.space()?;
            SearchKey::Header { name, text: text(cursor)? }
        }
        "BCC" | "CC" | "FROM" | "SUBJECT" | "TO" => SearchKey::Header { name: name.to_owned(), text: text(cursor)? },
        _ => return Err(SyntaxError("unknown search key").into()),
    })
}

fn object_id(cursor: &mut Cursor) -> Result<String, SyntaxError> {
    let id = cursor.astring_utf8()?;
    if is_object_id(&id) { Ok(id) } else { Err(SyntaxError("expected an object identifier")) }
}

fn keyword(cursor: &mut Cursor) -> Result<Keyword, SyntaxError> {
    Keyword::new(&cursor.atom()?).ok_or(SyntaxError("expected a keyword"))
}

/// Reads a number of seconds above zero (RFC 5032 section 3).
fn interval(cursor: &mut Cursor) -> Result<u32, SyntaxError> {
    match cursor.number()? {
        0 => Err(SyntaxError("expected a number above zero")),
        seconds => Ok(seconds),
    }
}

fn date(cursor: &mut Cursor) -> Result<Date, SyntaxError> {
    parse_date(&cursor.astring_utf8()?).ok_or(SyntaxError("invalid date"))
}

fn text(cursor: &mut Cursor) -> Result<String, CommandError> {
    // Some clients send UTF-8 without CHARSET. Reject any other text: its charset is unknown.
    cursor.searched_text()?.ok_or(CommandError::Charset { saves: false })
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::super::tests::parse;
    use super::*;

    fn search(keys: &str) -> SearchCommand {
        let Ok(Command::Search(command)) = parse(&format!("a SEARCH {keys}")) else { panic!("{keys}") };
        command
    }

    struct Message(Flags);

    impl SearchSubject for Message {
        fn uid(&self) -> u32 {
            7
        }
        fn flags(&self) -> &Flags {
            &self.0
        }
        fn modseq(&self) -> u64 {
            5
        }
        fn email_id(&self) -> ObjectId {
            ObjectId::email(3)
        }
        fn age(&self) -> u64 {
            60
        }
        fn received(&self) -> Date {
            Date::constant(2024, 2, 29)
        }
        fn saved(&self) -> Date {
            Date::constant(2024, 3, 1)
        }
        fn sent(&self) -> Option<Date> {
            None
        }
        fn size(&self) -> u64 {
            100
        }
        fn header_contains(&self, name: &str, text: &str) -> bool {
            name.eq_ignore_ascii_case("subject") && "hello".contains(text)
        }
        fn body_contains(&self, text: &str) -> bool {
            "body".contains(text)
        }
        fn text_contains(&self, text: &str) -> bool {
            self.header_contains("subject", text) || self.body_contains(text)
        }
    }

    fn matches(keys: &str) -> bool {
        let uids = |set| match set {
            SearchSet::Set(_) => Ok::<_, ()>(UidRanges::of(1..10)),
            SearchSet::Recent => Ok(UidRanges::of(7..8)),
        };
        search(keys).key.map_messages(&uids).unwrap().matches(&Message(Flags::from_words(["\\Seen", "a"])))
    }

    #[test]
    fn broken_searches_are_refused() {
        for keys in [
            "",
            "FOO",
            "NOT",
            "OR SEEN",
            "()",
            "(SEEN",
            "BEFORE 1-Foo-2020",
            "LARGER x",
            "SAVEDON x",
            "SAVEDATESUPPORTED x",
            "UID",
            "RETURN (FOO) ALL",
            "RETURN () ",
            "KEYWORD (a)",
            "EMAILID",
            "EMAILID a.b",
            "THREADID \"\"",
        ] {
            assert!(matches!(parse(&format!("a SEARCH {keys}")), Err(CommandError::Syntax(_))), "{keys}");
        }
        let deep = "NOT ".repeat(1000);
        assert!(parse(&format!("a SEARCH {deep}SEEN")).is_err());
        assert!(parse(&format!("a SEARCH {}SEEN", "OR SEEN ".repeat(1000))).is_err());
        assert!(matches!(parse("a SEARCH CHARSET KOI8-R ALL"), Err(CommandError::Charset { saves: false })));
    }

    #[test]
    fn results_default_to_all() {
        assert_eq!(search("ALL").results, None);
        assert!(search("RETURN () CHARSET utf-8 ALL").results.unwrap().all);
        let results = search("RETURN (MIN COUNT) ALL").results.unwrap();
        assert!(results.min && results.count && !results.all && !results.max);
    }

    #[test]
    fn keys_match() {
        for keys in [
            "ALL",
            "RECENT",
            "NOT NEW",
            "SEEN",
            "UNDELETED",
            "KEYWORD A",
            "UNKEYWORD b",
            "NOT DELETED",
            "ON 29-Feb-2024",
            "SINCE 1-Jan-2024",
            "BEFORE \"1-Mar-2024\"",
            "SAVEDATESUPPORTED",
            "SAVEDON 1-Mar-2024 SAVEDSINCE 29-Feb-2024 SAVEDBEFORE 2-Mar-2024",
            "LARGER 99 SMALLER 101",
            "SUBJECT ell",
            "HEADER subject \"\"",
            "BODY od",
            "TEXT hello",
            "OR DELETED SEEN",
            "(SEEN UID 7)",
            "1:2",
            "EMAILID M3",
            "NOT THREADID M3",
            "UNDRAFT UNFLAGGED UNANSWERED",
        ] {
            assert!(matches(keys), "{keys}");
        }
        for keys in [
            "NEW",
            "OLD",
            "NOT RECENT",
            "UNSEEN",
            "DELETED",
            "NOT ALL",
            "SENTON 29-Feb-2024",
            "LARGER 100",
            "SAVEDON 29-Feb-2024",
            "SAVEDSINCE 2-Mar-2024",
            "EMAILID m3",
            "EMAILID M33",
            "FROM x",
            "SEEN DELETED",
        ] {
            assert!(!matches(keys), "{keys}");
        }
    }

    #[test]
    fn slow_keys_are_asked_last() {
        assert!(matches!(search("TEXT x SEEN").key, SearchKey::And(keys) if keys[1].needs_text()));
    }
}
