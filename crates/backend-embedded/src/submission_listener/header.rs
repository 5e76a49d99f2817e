//! Parses the author fields of a submitted message's header block.

use mailapi_backend::mime::header_lines;
use mailapi_model::EmailAddress;

use super::mailbox::mailbox;

/// The header fields that submission checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AuthorFields {
    /// The address in From.
    pub(super) author: Option<EmailAddress>,
    /// The address in Sender.
    pub(super) sender: Option<EmailAddress>,
    /// Whether Date and Message-ID are present.
    pub(super) has_date: bool,
    pub(super) has_message_id: bool,
}

/// Reason why the header fields are unreliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// Two From or two Sender fields: readers disagree on which one counts (RFC 5322 section 3.6).
    Twice,
    /// From or Sender does not contain exactly one valid mailbox.
    Unreadable,
    /// The header block is interrupted by a line that is not a field: readers disagree on its end.
    Malformed,
    /// The header block exceeds the maximum length.
    TooLong,
}

/// Returns a message's header block without the empty line. It may be empty.
pub(super) fn block(message: &[u8]) -> &[u8] {
    let mut end = 0;
    for line in header_lines(message) {
        let continues = end > 0 && matches!(line.first(), Some(b' ' | b'\t'));
        if !(continues || is_field(line)) {
            break;
        }
        end += line.len();
    }
    &message[..end]
}

/// Returns whether a line starts with `name:`, where the name is printable (RFC 5322 section 2.2).
fn is_field(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return false };
    let name = line[..colon].trim_ascii_end();
    !name.is_empty() && name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

impl AuthorFields {
    /// Parses the fields of a message.
    pub(super) fn of(message: &[u8]) -> Result<Self, HeaderError> {
        let block = block(message);
        let rest = &message[block.len()..];
        if !(block.is_empty() || rest.is_empty() || rest.starts_with(b"\r\n")) {
            return Err(HeaderError::Malformed);
        }
        Ok(Self {
            author: person(block, b"from")?,
            sender: person(block, b"sender")?,
            has_date: !values(block, b"date").is_empty(),
            has_message_id: !values(block, b"message-id").is_empty(),
        })
    }
}

/// Returns the mailbox of a field that must not occur twice; `None` without the field.
fn person(block: &[u8], name: &[u8]) -> Result<Option<EmailAddress>, HeaderError> {
    let mut values = values(block, name).into_iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => mailbox(&value).map(Some).ok_or(HeaderError::Unreadable),
        (Some(_), Some(_)) => Err(HeaderError::Twice),
    }
}

/// Returns the values of all fields of this name, unfolded (RFC 5322 section 2.2.3).
fn values(block: &[u8], name: &[u8]) -> Vec<String> {
    let mut values: Vec<Vec<u8>> = Vec::new();
    let mut is_named = false;
    for line in block.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if matches!(line.first(), Some(b' ' | b'\t')) {
            if let Some(value) = values.last_mut().filter(|_| is_named) {
                value.extend_from_slice(line);
            }
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        is_named = line[..colon].trim_ascii_end().eq_ignore_ascii_case(name);
        if is_named {
            values.push(line.get(colon + 1..).unwrap_or_default().to_vec());
        }
    }
    // Lossy decoding could turn invalid UTF-8 into a valid value; a NUL is always rejected.
    values.into_iter().map(|value| String::from_utf8(value).unwrap_or_else(|_| "\0".to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn author(header: &str) -> Result<Option<String>, HeaderError> {
        let fields = AuthorFields::of(header.as_bytes())?;
        Ok(fields.author.map(|author| author.as_str().to_owned()))
    }

    #[test]
    fn what_names_no_author_for_certain_is_refused() {
        for header in [
            "From: ann\r\n\r\n",
            "From: <>\r\n\r\n",
            "From:\r\n\r\n",
            "From: ann@here.example, nobody\r\n\r\n",
            "From: ann@here.example, ann@here.example\r\n\r\n",
            "From: undisclosed:;\r\n\r\n",
            "From: bob@here.example:;, ann@here.example\r\n\r\n",
            "From: bob@here.example\r\n\t<ann@here.example\r\n\r\n",
            "Sender: bob@here.example <ann@here.example>\r\nFrom: ann@here.example\r\n\r\n",
        ] {
            assert_eq!(author(header), Err(HeaderError::Unreadable), "{header:?}");
        }
        assert_eq!(AuthorFields::of(b"From: \xfc <ann@here.example>\r\n\r\n"), Err(HeaderError::Unreadable));
        for header in ["From: ann@here.example\r\nhello\r\n", "A: 1\r\nno field\r\nFrom: bob@here.example\r\n\r\n"] {
            assert_eq!(author(header), Err(HeaderError::Malformed), "{header:?}");
        }
        let twice = "From: ann@here.example\r\nSubject: x\r\nfRom: bob@here.example\r\n\r\n";
        assert_eq!(author(twice), Err(HeaderError::Twice));
        let behind_white_space = "From: ann@here.example\r\n \t\r\nFrom: bob@here.example\r\n\r\n";
        assert_eq!(author(behind_white_space), Err(HeaderError::Twice));
    }

    #[test]
    fn fields_behind_a_line_of_white_space_are_present() {
        let header = b"From: ann@here.example\r\n \r\nDate: x\r\nMessage-ID: <a@b>\r\n\r\n";
        let fields = AuthorFields::of(header).unwrap();
        assert!(fields.has_date && fields.has_message_id);
    }

    #[test]
    fn the_author_is_found_however_it_is_written() {
        let folded =
            "To: x@y.example,\r\n From: eve@y.example\r\nFrom: \"Lee, Ann\"\r\n\t<ANN@here.example>\r\nA: b\r\n\r\n";
        for header in ["From : ann@here.example\r\n\r\n", folded] {
            assert_eq!(author(header), Ok(Some("ann@here.example".to_owned())));
        }
        assert_eq!(author("To: x@y.example\r\n\r\n"), Ok(None));
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
