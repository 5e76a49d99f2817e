//! NAMESPACE responses (RFC 2342).

use super::body_structure::skip;
use crate::token::{Cursor, SyntaxError};
use crate::utf7;

/// A part of the hierarchy of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The decoded beginning of the names, such as `INBOX.`; may be empty.
    pub prefix: String,
    /// The hierarchy separator.
    pub separator: Option<char>,
}

/// The parts of the hierarchy by their owners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// Of the user.
    pub personal: Vec<Namespace>,
    /// Of other users.
    pub others: Vec<Namespace>,
    /// Of all users.
    pub shared: Vec<Namespace>,
}

impl Namespaces {
    /// Reads the three lists; the cursor is after the space that follows the keyword.
    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, SyntaxError> {
        let personal = read_list(cursor)?;
        cursor.space()?;
        let others = read_list(cursor)?;
        cursor.space()?;
        Ok(Self { personal, others, shared: read_list(cursor)? })
    }
}

fn read_list(cursor: &mut Cursor) -> Result<Vec<Namespace>, SyntaxError> {
    let mut namespaces = Vec::new();
    if cursor.try_keyword("NIL") {
        return Ok(namespaces);
    }
    cursor.byte(b'(', "expected a list")?;
    while !cursor.try_byte(b')') {
        cursor.count()?;
        namespaces.extend(read_one(cursor)?);
        // Some servers separate the elements by spaces.
        cursor.try_byte(b' ');
    }
    Ok(namespaces)
}

/// Reads one element; `None` if its prefix is not modified UTF-7, so that no name begins with it.
fn read_one(cursor: &mut Cursor) -> Result<Option<Namespace>, SyntaxError> {
    cursor.byte(b'(', "expected a namespace")?;
    let prefix = utf7::decode(&cursor.string()?);
    cursor.space()?;
    let separator = cursor.nstring()?.and_then(|text| text.first().copied()).map(char::from);
    // Extensions follow (RFC 2342 section 5).
    while cursor.try_byte(b' ') {
        skip(cursor)?;
    }
    cursor.byte(b')', "expected the end of a namespace")?;
    Ok(prefix.map(|prefix| Namespace { prefix, separator }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::token::{Frame, Part};

    fn read(text: &str) -> Result<Namespaces, SyntaxError> {
        Namespaces::read(&mut Cursor::new(Frame::new(vec![Part::Text(text.as_bytes().to_vec())]), 4))
    }

    fn namespace(prefix: &str, separator: char) -> Namespace {
        Namespace { prefix: prefix.to_owned(), separator: Some(separator) }
    }

    #[test]
    fn broken_lists_are_refused() {
        for text in ["", "NIL", "NIL NIL", "() NIL (", "((\"a\")) NIL NIL", "((\"a\" \"/\" NIL NIL"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_examples_of_the_standard_are_read() {
        assert_eq!(read("NIL NIL NIL"), Ok(Namespaces::default()));
        let cyrus = read("((\"INBOX.\" \".\")) ((\"user.\" \".\")) ((\"\" \".\"))").unwrap();
        assert_eq!(cyrus.personal, [namespace("INBOX.", '.')]);
        assert_eq!((cyrus.others, cyrus.shared), (vec![namespace("user.", '.')], vec![namespace("", '.')]));
        let extended = "((\"\" \"/\") (\"#mh/\" \"/\" \"X-PARAM\" (\"FLAG1\" \"FLAG2\"))) NIL ((\"Gr&APY-ups/\" NIL))";
        let read = read(extended).unwrap();
        assert_eq!(read.personal, [namespace("", '/'), namespace("#mh/", '/')]);
        assert_eq!(read.shared, [Namespace { prefix: "Gröups/".to_owned(), separator: None }]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(NIL|[()]| |\"[a-z.&]{0,4}\"|\\PC){0,20}") {
            let _ = read(&text);
        }
    }
}
