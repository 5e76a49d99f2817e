//! The arguments of SORT and THREAD (RFC 5256, RFC 5957, RFC 5267 for RETURN).

use super::CommandError;
use super::message_set::SearchSet;
use super::search::{self, SearchKey, SearchReturn};
use crate::token::{Cursor, SyntaxError};

/// The arguments of SORT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortCommand {
    /// Whether the response contains UIDs: true for UID SORT.
    pub uid: bool,
    /// The options of `RETURN (...)`; `None` for a plain SORT response.
    pub results: Option<SearchReturn>,
    /// The criteria, the most important first.
    pub criteria: Vec<SortCriterion>,
    /// The messages to sort.
    pub key: SearchKey<SearchSet>,
}

/// One criterion of SORT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortCriterion {
    /// The compared value.
    pub key: SortKey,
    /// Whether the largest value comes first.
    pub reverse: bool,
}

/// A value that SORT compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortKey {
    /// The internal date and time.
    Arrival,
    /// The local part of the first address in Cc.
    Cc,
    /// The time in the Date header.
    Date,
    /// The display name of the first author (RFC 5957).
    DisplayFrom,
    /// The display name of the first recipient (RFC 5957).
    DisplayTo,
    /// The local part of the first author.
    From,
    /// The size in octets.
    Size,
    /// The base subject.
    Subject,
    /// The local part of the first recipient.
    To,
}

/// The arguments of THREAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCommand {
    /// Whether the response contains UIDs: true for UID THREAD.
    pub uid: bool,
    /// The algorithm.
    pub algorithm: ThreadAlgorithm,
    /// The messages to thread.
    pub key: SearchKey<SearchSet>,
}

/// An algorithm of THREAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadAlgorithm {
    /// Messages with the same base subject.
    OrderedSubject,
    /// Messages that refer to each other.
    References,
}

/// Criteria of one SORT: each takes a value of every message.
const MOST_CRITERIA: usize = 16;

impl SortKey {
    /// Whether the value is in the message's header.
    pub(crate) const fn needs_header(self) -> bool {
        !matches!(self, Self::Arrival | Self::Size)
    }
}

pub(super) fn sort(cursor: &mut Cursor, uid: bool) -> Result<SortCommand, CommandError> {
    cursor.space()?;
    let results = search::result_options(cursor)?;
    let criteria = criteria(cursor)?;
    cursor.space()?;
    let key = search::charset_and_key(cursor).map_err(|error| error.of_search(results))?;
    Ok(SortCommand { uid, results, criteria, key })
}

pub(super) fn thread(cursor: &mut Cursor, uid: bool) -> Result<ThreadCommand, CommandError> {
    cursor.space()?;
    let algorithm = match cursor.keyword()?.as_str() {
        "ORDEREDSUBJECT" => ThreadAlgorithm::OrderedSubject,
        "REFERENCES" => ThreadAlgorithm::References,
        _ => return Err(SyntaxError("unknown threading algorithm").into()),
    };
    cursor.space()?;
    Ok(ThreadCommand { uid, algorithm, key: search::charset_and_key(cursor)? })
}

fn criteria(cursor: &mut Cursor) -> Result<Vec<SortCriterion>, SyntaxError> {
    let criteria = cursor.list(|cursor| {
        let mut word = cursor.keyword()?;
        let reverse = word == "REVERSE";
        if reverse {
            cursor.space()?;
            word = cursor.keyword()?;
        }
        Ok(SortCriterion { key: sort_key(&word)?, reverse })
    })?;
    match criteria.len() {
        0 => Err(SyntaxError("expected a sort criterion")),
        1..=MOST_CRITERIA => Ok(criteria),
        _ => Err(SyntaxError("too many sort criteria")),
    }
}

fn sort_key(word: &str) -> Result<SortKey, SyntaxError> {
    Ok(match word {
        "ARRIVAL" => SortKey::Arrival,
        "CC" => SortKey::Cc,
        "DATE" => SortKey::Date,
        "DISPLAYFROM" => SortKey::DisplayFrom,
        "DISPLAYTO" => SortKey::DisplayTo,
        "FROM" => SortKey::From,
        "SIZE" => SortKey::Size,
        "SUBJECT" => SortKey::Subject,
        "TO" => SortKey::To,
        _ => return Err(SyntaxError("unknown sort criterion")),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Command;
    use super::super::tests::parse;
    use super::*;

    #[test]
    fn broken_arguments_are_refused() {
        for line in [
            "a SORT",
            "a SORT () UTF-8 ALL",
            "a SORT (FOO) UTF-8 ALL",
            "a SORT (REVERSE) UTF-8 ALL",
            "a SORT (DATE) UTF-8",
            "a SORT (DATE) ALL",
            "a SORT RETURN (FOO) (DATE) UTF-8 ALL",
            "a THREAD FOO UTF-8 ALL",
            "a THREAD REFERENCES ALL",
            "a THREAD REFERENCES UTF-8",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let many = format!("a SORT ({}) UTF-8 ALL", ["DATE"; 17].join(" "));
        assert!(matches!(parse(&many), Err(CommandError::Syntax(_))));
        assert!(matches!(parse("a SORT (DATE) X ALL"), Err(CommandError::Charset { saves: false })));
    }

    #[test]
    fn every_form_is_read() {
        let Ok(Command::Sort(sort)) = parse("a UID SORT RETURN (COUNT) (REVERSE date SUBJECT) utf-8 UNSEEN 1:3") else {
            panic!()
        };
        let by = |key, reverse| SortCriterion { key, reverse };
        assert_eq!(sort.criteria, [by(SortKey::Date, true), by(SortKey::Subject, false)]);
        assert!(sort.uid && sort.results.is_some_and(|results| results.count));
        let Ok(Command::Thread(thread)) = parse("a THREAD references US-ASCII ALL") else { panic!() };
        assert_eq!((thread.uid, thread.algorithm), (false, ThreadAlgorithm::References));
    }

    proptest! {
        #[test]
        fn any_arguments_are_read_or_refused(words in prop::collection::vec(prop::sample::select(vec![
            "(", ")", " ", "REVERSE", "DATE", "SUBJECT", "UTF-8", "ALL", "RETURN", "REFERENCES", "1:*", "NOT",
        ]), 0..20)) {
            let _ = parse(&format!("a SORT {}", words.concat()));
            let _ = parse(&format!("a UID THREAD {}", words.concat()));
        }
    }
}
