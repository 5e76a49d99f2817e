//! What the header block of a submitted message says of its authors, and what it leaves out.

use mail_parser::{Address, HeaderName, HeaderValue, MessageParser};
use mailapi_model::EmailAddress;

/// The fields that submission looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AuthorFields {
    /// Everybody named by From, in all of its occurrences.
    pub(super) authors: Vec<EmailAddress>,
    /// Everybody named by Sender.
    pub(super) senders: Vec<EmailAddress>,
    /// Whether there is a From, a Date, a Message-ID.
    pub(super) has_from: bool,
    pub(super) has_date: bool,
    pub(super) has_message_id: bool,
}

/// The fields cannot be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// There are two From or two Sender fields: readers disagree on which one counts (RFC 5322 section 3.6).
    Twice,
    /// From or Sender names nobody, or something that is no address.
    Unreadable,
    /// The header block breaks off with a line that is no field: readers disagree on where it ends.
    Malformed,
    /// It is longer than anything that is a header.
    TooLong,
}

/// Where a message's header block ends: the empty line not included. A message may have none.
pub(super) fn block(message: &[u8]) -> &[u8] {
    let mut end = 0;
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        let continues = end > 0 && matches!(line.first(), Some(b' ' | b'\t'));
        if line.trim_ascii().is_empty() || !(continues || is_field(line)) {
            break;
        }
        end += line.len();
    }
    &message[..end]
}

/// How many lines begin a field of this name.
fn count(block: &[u8], name: &[u8]) -> usize {
    let named = |line: &&[u8]| {
        let field = line.split(|byte| *byte == b':').next().unwrap_or_default();
        field.trim_ascii_end().eq_ignore_ascii_case(name)
    };
    block.split(|byte| *byte == b'\n').filter(named).count()
}

/// `name:`, where the name is printable (RFC 5322 section 2.2).
fn is_field(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return false };
    let name = line[..colon].trim_ascii_end();
    !name.is_empty() && name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

impl AuthorFields {
    /// Reads the fields of a message.
    pub(super) fn of(message: &[u8]) -> Result<Self, HeaderError> {
        let block = block(message);
        let rest = &message[block.len()..];
        if !(block.is_empty() || rest.is_empty() || rest.starts_with(b"\r\n")) {
            return Err(HeaderError::Malformed);
        }
        let Some(message) = MessageParser::new().parse_headers(block) else { return Ok(Self::default()) };
        let mut fields = Self::default();
        let mut has_sender = false;
        for header in message.headers() {
            match &header.name {
                HeaderName::From => {
                    once(&mut fields.has_from)?;
                    fields.authors = addresses(&header.value)?;
                }
                HeaderName::Sender => {
                    once(&mut has_sender)?;
                    fields.senders = addresses(&header.value)?;
                }
                HeaderName::Date => fields.has_date = true,
                HeaderName::MessageId => fields.has_message_id = true,
                _ => {}
            }
        }
        // What the parser did not take for these fields, another reader might.
        let unseen = |name, seen| count(block, name) != usize::from(seen);
        if unseen(b"from".as_slice(), fields.has_from) || unseen(b"sender".as_slice(), has_sender) {
            return Err(HeaderError::Unreadable);
        }
        Ok(fields)
    }
}

fn once(seen: &mut bool) -> Result<(), HeaderError> {
    if std::mem::replace(seen, true) { Err(HeaderError::Twice) } else { Ok(()) }
}

/// Every address of a field; an error when there is none, or one that is none of ours to judge.
fn addresses(value: &HeaderValue<'_>) -> Result<Vec<EmailAddress>, HeaderError> {
    let HeaderValue::Address(list) = value else { return Err(HeaderError::Unreadable) };
    let found: Vec<_> = match list {
        Address::List(list) => list.iter().collect(),
        Address::Group(groups) => groups.iter().flat_map(|group| &group.addresses).collect(),
    };
    let parse = |address: &&mail_parser::Addr<'_>| address.address.as_deref().and_then(|text| text.parse().ok());
    let addresses: Option<Vec<EmailAddress>> = found.iter().map(parse).collect();
    addresses.filter(|addresses| !addresses.is_empty()).ok_or(HeaderError::Unreadable)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn authors(header: &str) -> Result<Vec<String>, HeaderError> {
        let fields = AuthorFields::of(header.as_bytes())?;
        Ok(fields.authors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_names_no_author_for_certain_is_refused() {
        for header in [
            "From: ann\r\n\r\n",
            "From: <>\r\n\r\n",
            "From:\r\n\r\n",
            "From: ann@here.example, nobody\r\n\r\n",
            "From: undisclosed:;\r\n\r\n",
        ] {
            assert_eq!(authors(header), Err(HeaderError::Unreadable), "{header:?}");
        }
        for header in ["From: ann@here.example\r\nhello\r\n", "A: 1\r\nno field\r\nFrom: bob@here.example\r\n\r\n"] {
            assert_eq!(authors(header), Err(HeaderError::Malformed), "{header:?}");
        }
        let twice = "From: ann@here.example\r\nSubject: x\r\nfRom: bob@here.example\r\n\r\n";
        assert_eq!(authors(twice), Err(HeaderError::Twice));
    }

    #[test]
    fn all_authors_are_found_however_they_are_written() {
        let folded = "From: \"Lee, Ann\" <ANN@here.example>,\r\n\tTeam: bob@here.example;\r\nTo: x@y.example\r\n\r\n";
        assert_eq!(authors("From : ann@here.example\r\n\r\n"), Ok(vec!["ann@here.example".to_owned()]));
        assert_eq!(authors(folded), Ok(vec!["ann@here.example".to_owned(), "bob@here.example".to_owned()]));
    }

    #[test]
    fn the_block_ends_where_the_fields_end() {
        assert_eq!(block(b"A: 1\r\n b\r\n\r\nB: 2\r\n"), b"A: 1\r\n b\r\n");
        assert_eq!(block(b"A: 1\r\nhello\r\n"), b"A: 1\r\n");
        assert_eq!(block(b"hello\r\nA: 1\r\n"), b"");
        assert_eq!(block(b""), b"");
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_panic(header in prop::collection::vec(any::<u8>(), 0..200), text in "((From|Sender|Date)[ \t]?:([ -~\\r\\n]{0,40}|([<>@,;:\"\\\\() .=?a-cé]|\r\n[ \t]){0,30})(\r\n)?){1,3}") {
            let _ = AuthorFields::of(&header);
            let _ = AuthorFields::of(text.as_bytes());
        }
    }
}
