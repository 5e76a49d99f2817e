//! BODYSTRUCTURE (RFC 3501 section 7.4.2), read leniently: missing trailing fields become `None`, unknown extra
//! fields are skipped.

use super::envelope::Envelope;
use crate::token::{Cursor, SyntaxError};

/// The structure of a message or part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyStructure {
    /// A part that is not a multipart.
    Single(Box<SinglePart>),
    /// A multipart.
    Multipart(Multipart),
    /// A part below the maximum depth; its structure is not read.
    Opaque,
}

/// A parameter's name in lower case and its value as in the header, such as `filename*` and `utf-8''a%20b`.
pub type Parameter = (String, Vec<u8>);

/// A part that is not a multipart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinglePart {
    /// Such as `text`, in lower case.
    pub media_type: String,
    /// Such as `plain`, in lower case; empty if the header has none.
    pub subtype: String,
    /// The parameters of Content-Type.
    pub parameters: Vec<Parameter>,
    /// Content-ID, usually in angle brackets.
    pub id: Option<Vec<u8>>,
    /// Content-Transfer-Encoding.
    pub encoding: String,
    /// Size of the encoded body, in octets.
    pub bytes: u64,
    /// Fields that only some media types have.
    pub details: MediaDetails,
    /// Content-Disposition and its parameters.
    pub disposition: Option<(String, Vec<Parameter>)>,
}

/// Fields that only some media types have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaDetails {
    /// No further fields.
    None,
    /// The message inside a message/rfc822.
    Message {
        /// Its envelope.
        envelope: Box<Envelope>,
        /// Its structure.
        body: BodyStructure,
    },
}

/// A multipart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart {
    /// The parts.
    pub parts: Vec<BodyStructure>,
    /// Such as `mixed`, in lower case.
    pub subtype: String,
}

impl BodyStructure {
    /// Reads a structure; parts deeper than `depth` become [`Self::Opaque`].
    pub(super) fn read(cursor: &mut Cursor, depth: usize) -> Result<Self, SyntaxError> {
        if depth == 0 {
            skip(cursor)?;
            return Ok(Self::Opaque);
        }
        cursor.byte(b'(', "expected a body structure")?;
        if cursor.peek() == Some(b'(') {
            return Multipart::read(cursor, depth).map(Self::Multipart);
        }
        SinglePart::read(cursor, depth).map(|part| Self::Single(Box::new(part)))
    }
}

impl Multipart {
    fn read(cursor: &mut Cursor, depth: usize) -> Result<Self, SyntaxError> {
        let mut parts = Vec::new();
        while cursor.peek() == Some(b'(') {
            cursor.count()?;
            parts.push(BodyStructure::read(cursor, depth - 1)?);
            // The grammar allows no space between parts; accept one anyway.
            cursor.try_byte(b' ');
        }
        let subtype = lower(cursor.nstring()?);
        skip_to_end(cursor)?;
        Ok(Self { parts, subtype })
    }
}

impl SinglePart {
    fn read(cursor: &mut Cursor, depth: usize) -> Result<Self, SyntaxError> {
        let media_type = lower(cursor.nstring()?);
        cursor.space()?;
        let subtype = lower(cursor.nstring()?);
        cursor.space()?;
        let parameters = read_parameters(cursor)?;
        cursor.space()?;
        let id = cursor.nstring()?;
        cursor.space()?;
        let _description = cursor.nstring()?;
        cursor.space()?;
        let encoding = lower(cursor.nstring()?);
        cursor.space()?;
        let bytes = if cursor.try_keyword("NIL") { 0 } else { cursor.number64()? };
        let details = read_details(cursor, &media_type, depth)?;
        let disposition = read_disposition(cursor)?;
        skip_to_end(cursor)?;
        Ok(Self { media_type, subtype, parameters, id, encoding, bytes, details, disposition })
    }
}

/// Reads the fields between the size and the extension data: an envelope, a structure and a number of lines; only
/// the lines; or nothing.
fn read_details(cursor: &mut Cursor, media_type: &str, depth: usize) -> Result<MediaDetails, SyntaxError> {
    let mut details = MediaDetails::None;
    // In some servers' short form, an attached message continues with a string or NIL.
    if media_type == "message" && cursor.peek_after_space() == Some(b'(') {
        cursor.space()?;
        let envelope = Box::new(Envelope::read(cursor)?);
        cursor.space()?;
        details = MediaDetails::Message { envelope, body: BodyStructure::read(cursor, depth - 1)? };
    }
    if cursor.peek_after_space().is_some_and(|byte| byte.is_ascii_digit()) {
        cursor.space()?;
        let _lines = cursor.number64()?;
    }
    Ok(details)
}

/// Skips the MD5 sum and reads the disposition, if the server sent them.
fn read_disposition(cursor: &mut Cursor) -> Result<Option<(String, Vec<Parameter>)>, SyntaxError> {
    if !cursor.try_byte(b' ') {
        return Ok(None);
    }
    let _md5 = cursor.nstring()?;
    if !cursor.try_byte(b' ') || cursor.try_keyword("NIL") {
        return Ok(None);
    }
    cursor.byte(b'(', "expected a disposition")?;
    let kind = lower(cursor.nstring()?);
    cursor.space()?;
    let parameters = read_parameters(cursor)?;
    cursor.byte(b')', "expected the end of a disposition")?;
    Ok(Some((kind, parameters)))
}

fn read_parameters(cursor: &mut Cursor) -> Result<Vec<Parameter>, SyntaxError> {
    if cursor.try_keyword("NIL") {
        return Ok(Vec::new());
    }
    cursor.list(|cursor| {
        let name = lower(Some(cursor.string()?));
        cursor.space()?;
        Ok((name, cursor.nstring()?.unwrap_or_default()))
    })
}

fn lower(text: Option<Vec<u8>>) -> String {
    match String::from_utf8(text.unwrap_or_default()) {
        Ok(mut text) if text.is_ascii() => {
            text.make_ascii_lowercase();
            text
        }
        Ok(text) => text.to_lowercase(),
        Err(bytes) => String::from_utf8_lossy(bytes.as_bytes()).to_lowercase(),
    }
}

/// Skips the rest of a part and its closing parenthesis.
fn skip_to_end(cursor: &mut Cursor) -> Result<(), SyntaxError> {
    while !cursor.try_byte(b')') {
        cursor.space()?;
        skip(cursor)?;
    }
    Ok(())
}

/// Skips one value of any depth.
pub(super) fn skip(cursor: &mut Cursor) -> Result<(), SyntaxError> {
    // Count open parentheses instead of recursing: the depth is the server's choice.
    let mut open = 0usize;
    loop {
        match cursor.peek() {
            Some(b'(') => {
                cursor.try_byte(b'(');
                open += 1;
                continue;
            }
            Some(b')') if open > 0 => {
                cursor.try_byte(b')');
                open -= 1;
            }
            Some(b' ') if open > 0 => {
                cursor.try_byte(b' ');
                continue;
            }
            Some(b'"') | None => drop(cursor.string()?),
            Some(b'\\') => drop(cursor.flag()?),
            Some(_) => cursor.skip_atom()?,
        }
        if open == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Frame, Part};
    use proptest::prelude::*;

    fn read(text: &str, depth: usize) -> Result<BodyStructure, SyntaxError> {
        let mut cursor = Cursor::new(Frame::new(vec![Part::Text(text.as_bytes().to_vec())]), 64);
        let body = BodyStructure::read(&mut cursor, depth)?;
        cursor.end().map(|()| body)
    }

    fn single(text: &str) -> SinglePart {
        match read(text, 9) {
            Ok(BodyStructure::Single(part)) => *part,
            other => panic!("{other:?}"),
        }
    }

    const TEXT: &str = "(\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 41 1)";

    #[test]
    fn broken_structures_are_refused() {
        let whole = format!(
            "({TEXT}(\"message\" \"rfc822\" NIL NIL NIL \"7bit\" 4 (NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL) {TEXT} 2) \"mixed\")"
        );
        assert!(read(&whole, 9).is_ok());
        for end in 0..whole.len() {
            assert!(read(&whole[..end], 9).is_err(), "{end}");
        }
    }

    #[test]
    fn what_lies_too_deep_is_opaque_and_the_rest_is_read() {
        let deep = format!("({}{TEXT}{} {TEXT} \"mixed\")", "(".repeat(50_000), " \"mixed\")".repeat(50_000));
        let Ok(BodyStructure::Multipart(read)) = read(&deep, 3) else { panic!("not read") };
        assert_eq!(read.parts.len(), 2);
        assert!(matches!(&read.parts[1], BodyStructure::Single(_)));
    }

    #[test]
    fn extension_data_may_be_missing_or_more_than_is_known() {
        let part = "\"image\" \"png\" NIL \"<i@x>\" NIL \"BASE64\" 8";
        for more in [
            "",
            " NIL",
            " NIL NIL",
            " NIL (\"INLINE\" NIL)",
            " NIL (\"inline\" (\"FileName*\" \"utf-8''a\")) NIL NIL (\"x\" (1 2)) 7",
        ] {
            let part = single(&format!("({part}{more})"));
            assert_eq!((part.encoding.as_str(), part.bytes, part.id.as_deref()), ("base64", 8, Some(&b"<i@x>"[..])));
            assert_eq!(part.disposition.is_some(), more.to_lowercase().contains("inline"));
        }
        let filename =
            single("(\"a\" \"\" NIL NIL NIL \"7bit\" NIL NIL (\"attachment\" (\"FileName*\" \"utf-8''a\")))")
                .disposition;
        assert_eq!(filename, Some(("attachment".into(), vec![("filename*".into(), b"utf-8''a".to_vec())])));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[() \"aN1\\\\]{0,80}") {
            let _ = read(&text, 5);
            let _ = skip(&mut Cursor::new(Frame::new(vec![Part::Text(text.into_bytes())]), 5));
        }

        #[test]
        fn a_damaged_structure_is_read_or_refused(
            wounds in prop::collection::vec(
                (any::<prop::sample::Index>(), 0_usize..12, "[() \"a1]{0,4}|NIL| NIL|\\(NIL\\)|4294967296|\\\\"), 0..4,
            ),
            depth in 0_usize..4,
        ) {
            let mut text = format!(
                "({TEXT}(\"message\" \"rfc822\" (\"a\" \"b\") \"<i@x>\" \"d\" \"7bit\" 4 (\"date\" \"s\" \
                 ((\"n\" NIL \"m\" \"h\")(NIL NIL \"g\" NIL)(NIL NIL NIL NIL)) NIL NIL NIL NIL NIL NIL NIL) {TEXT} 2 NIL \
                 (\"attachment\" (\"filename\" \"x\")) (\"de\" \"en\") \"l\" (1 (2))) \"mixed\" (\"boundary\" \"b\") NIL)"
            );
            for (at, length, put) in wounds {
                let at = at.index(text.len() + 1);
                text.replace_range(at..(at + length).min(text.len()), &put);
            }
            let _ = read(&text, depth);
            let _ = skip(&mut Cursor::new(Frame::new(vec![Part::Text(text.into_bytes())]), depth));
        }
    }
}
