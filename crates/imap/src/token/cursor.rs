//! A reader for the tokens of one frame.

use super::frame::{Frame, Part};
use super::sequence::SequenceSet;
use super::{is_astring_char, is_atom_char, is_list_char};

/// A syntax error, by the missing token. The text may be sent to the peer: it never repeats input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxError(pub &'static str);

const TOO_LARGE: SyntaxError = SyntaxError("number too large");
/// The frame has more than [`MOST_VALUES`].
pub(crate) const TOO_MANY: SyntaxError = SyntaxError("too many values");

/// Values of lists in one frame, together. `(""` becomes a hundred times its length in memory. A message with a
/// thousand parts has some ten thousand values.
const MOST_VALUES: usize = 20_000;

/// Length of the two quotes of a quoted string.
const AROUND_QUOTED: usize = 2;

/// A value whose structure does not matter (unknown response items, ID parameters).
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// `NIL`.
    Nil,
    /// An atom, numbers included.
    Atom(String),
    /// A quoted string or literal.
    String(Vec<u8>),
    /// A parenthesized list.
    List(Vec<Value>),
}

/// A position in a frame. Each method reads one whole token or fails. After a failure the position is undefined,
/// except for methods named `try_…`.
pub struct Cursor {
    frame: Frame,
    part: usize,
    offset: usize,
    depth: usize,
    max_depth: usize,
    values: usize,
    utf8_names: bool,
    is_latin_1: bool,
}

impl Cursor {
    /// A cursor before the first token. `max_depth` limits `Self::descend`.
    pub fn new(frame: Frame, max_depth: usize) -> Self {
        Self { frame, part: 0, offset: 0, depth: 0, max_depth, values: 0, utf8_names: false, is_latin_1: false }
    }

    /// Reads names of mailboxes as UTF-8, not as modified UTF-7.
    pub(crate) fn with_utf8_names(self, utf8_names: bool) -> Self {
        Self { utf8_names, ..self }
    }

    /// Reads the texts of searches as ISO-8859-1 from here on, not as UTF-8.
    pub(crate) fn read_latin_1(&mut self) {
        self.is_latin_1 = true;
    }

    /// Reads the text of a search; `None` if it is not in the charset.
    pub(crate) fn searched_text(&mut self) -> Result<Option<String>, SyntaxError> {
        let text = self.astring()?;
        Ok(match self.is_latin_1 {
            true => Some(text.into_iter().map(char::from).collect()),
            false => String::from_utf8(text).ok(),
        })
    }

    /// Whether names of mailboxes are UTF-8.
    pub(crate) fn has_utf8_names(&self) -> bool {
        self.utf8_names
    }

    fn rest(&self) -> &[u8] {
        match self.frame.parts.get(self.part) {
            Some(Part::Text(text)) => &text[self.offset..],
            _ => &[],
        }
    }

    /// The next byte of text; `None` before a literal and at the end.
    pub fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Whether this text is next; case is ignored.
    pub(crate) fn starts_with(&self, text: &str) -> bool {
        self.rest().get(..text.len()).is_some_and(|next| next.eq_ignore_ascii_case(text.as_bytes()))
    }

    /// The byte after the next one, if the next one is a space.
    pub(crate) fn peek_after_space(&self) -> Option<u8> {
        match self.rest() {
            [b' ', byte, ..] => Some(*byte),
            _ => None,
        }
    }

    fn at_literal(&self) -> bool {
        self.rest().is_empty() && matches!(self.frame.parts.get(self.part + 1), Some(Part::Literal(_)))
    }

    /// Whether only spaces are left.
    pub(crate) fn at_end(&self) -> bool {
        self.rest().iter().all(|&byte| byte == b' ') && self.part + 1 >= self.frame.parts.len()
    }

    /// Fails unless only spaces are left; some clients end a line with a space.
    pub fn end(&self) -> Result<(), SyntaxError> {
        if self.at_end() { Ok(()) } else { Err(SyntaxError("unexpected text at the end of the command")) }
    }

    /// Skips the byte if it is next.
    pub(crate) fn try_byte(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.offset += usize::from(found);
        found
    }

    /// Skips the given byte.
    pub fn byte(&mut self, byte: u8, expected: &'static str) -> Result<(), SyntaxError> {
        if self.try_byte(byte) { Ok(()) } else { Err(SyntaxError(expected)) }
    }

    /// Skips a space and further ones. The grammar has one (RFC 3501 section 9); some clients and servers send more, and
    /// Dovecot accepts them.
    pub fn space(&mut self) -> Result<(), SyntaxError> {
        if self.try_space() { Ok(()) } else { Err(SyntaxError("expected a space")) }
    }

    /// Skips spaces. Returns whether there was one.
    pub(crate) fn try_space(&mut self) -> bool {
        !self.take_while(|byte| byte == b' ').is_empty()
    }

    /// Skips the end of a list.
    pub(crate) fn end_of_list(&mut self) -> Result<(), SyntaxError> {
        self.try_space();
        self.byte(b')', "expected the end of the list")
    }

    /// Reads accepted bytes, possibly none. All callers accept ASCII only.
    fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> &str {
        let start = self.offset;
        let rest = self.rest();
        let len = rest.iter().position(|&byte| !accept(byte)).unwrap_or(rest.len());
        self.offset += len;
        match self.frame.parts.get(self.part) {
            Some(Part::Text(text)) => std::str::from_utf8(&text[start..start + len]).unwrap_or_default(),
            _ => "",
        }
    }

    fn bare(&mut self, accept: impl Fn(u8) -> bool, expected: &'static str) -> Result<&str, SyntaxError> {
        let word = self.take_while(accept);
        if word.is_empty() { Err(SyntaxError(expected)) } else { Ok(word) }
    }

    fn word(&mut self, accept: impl Fn(u8) -> bool, expected: &'static str) -> Result<String, SyntaxError> {
        self.bare(accept, expected).map(ToOwned::to_owned)
    }

    /// Reads the tag of a command.
    pub fn tag(&mut self) -> Result<String, SyntaxError> {
        self.word(|byte| is_astring_char(byte) && byte != b'+', "expected a tag")
    }

    /// Reads an atom.
    pub fn atom(&mut self) -> Result<String, SyntaxError> {
        self.word(is_atom_char, "expected an atom")
    }

    /// Skips an atom.
    pub(crate) fn skip_atom(&mut self) -> Result<(), SyntaxError> {
        self.bare(is_atom_char, "expected an atom").map(drop)
    }

    /// Reads letters, digits, `.`, `-`, `=` and `+` in upper case: command names, FETCH items, search keys.
    pub fn keyword(&mut self) -> Result<String, SyntaxError> {
        self.written_keyword().map(str::to_ascii_uppercase)
    }

    /// Reads a keyword without changing its case.
    pub(crate) fn written_keyword(&mut self) -> Result<&str, SyntaxError> {
        self.bare(
            |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'=' | b'+'),
            "expected a keyword",
        )
    }

    /// Skips `word` if it is exactly the next atom; case is ignored. Otherwise the position stays.
    pub(crate) fn try_keyword(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let len = rest.iter().position(|&byte| !is_atom_char(byte)).unwrap_or(rest.len());
        let found = rest[..len].eq_ignore_ascii_case(word.as_bytes());
        self.offset += if found { len } else { 0 };
        found
    }

    /// Reads a flag: an atom, or a backslash and an atom.
    pub fn flag(&mut self) -> Result<String, SyntaxError> {
        if !self.try_byte(b'\\') {
            return self.word(is_atom_char, "expected a flag");
        }
        let name = self.bare(is_atom_char, "expected a flag")?;
        let mut flag = String::with_capacity(1 + name.len());
        flag.push('\\');
        flag.push_str(name);
        Ok(flag)
    }

    /// Reads the flags of a message that a server lists, as written. Some servers accept words that the grammar refuses,
    /// such as `[x]` or 8-bit text, so every word is returned.
    pub(crate) fn written_flags(&mut self) -> Result<Vec<String>, SyntaxError> {
        self.byte(b'(', "expected a list")?;
        let mut flags = Vec::new();
        loop {
            self.skip_spaces();
            if self.try_byte(b')') {
                return Ok(flags);
            }
            self.count()?;
            flags.push(self.written_flag()?);
        }
    }

    fn written_flag(&mut self) -> Result<String, SyntaxError> {
        if matches!(self.peek(), None | Some(b'"')) {
            return self.string().map(|flag| String::from_utf8_lossy(&flag).into_owned());
        }
        let rest = self.rest();
        let length = rest.iter().position(|byte| matches!(byte, b' ' | b')')).unwrap_or(rest.len());
        let flag = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.offset += length;
        Ok(flag)
    }

    /// Skips spaces. Returns the byte after them.
    pub(crate) fn skip_spaces(&mut self) -> Option<u8> {
        while self.try_byte(b' ') {}
        self.peek()
    }

    /// Reads the rest of the line.
    pub fn text(&mut self) -> String {
        let text = String::from_utf8_lossy(self.rest()).into_owned();
        self.offset += self.rest().len();
        text
    }

    /// Reads a number below 2^32.
    pub fn number(&mut self) -> Result<u32, SyntaxError> {
        u32::try_from(self.number64()?).map_err(|_| TOO_LARGE)
    }

    /// Reads a number below 2^64.
    pub(crate) fn number64(&mut self) -> Result<u64, SyntaxError> {
        let digits = self.rest().iter().map_while(|&byte| char::from(byte).to_digit(10));
        let (mut length, mut number) = (0, Some(0_u64));
        for digit in digits {
            number = number.and_then(|number| number.checked_mul(10)?.checked_add(digit.into()));
            length += 1;
        }
        self.offset += length;
        if length > 0 { number.ok_or(TOO_LARGE) } else { Err(SyntaxError("expected a number")) }
    }

    /// Reads a sequence set such as `1:3,7,9:*`, or `$` for the saved result of a search (RFC 5182).
    pub(crate) fn sequence_set(&mut self) -> Result<SequenceSet, SyntaxError> {
        if self.try_byte(b'$') {
            return Ok(SequenceSet::saved());
        }
        self.take_while(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b',' | b'*')).parse()
    }

    /// Whether a sequence set may begin here.
    pub(crate) fn at_sequence_set(&self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'*' | b'$'))
    }

    /// Reads a literal. Its octets are moved, not copied.
    pub fn literal(&mut self) -> Result<Vec<u8>, SyntaxError> {
        if !self.at_literal() {
            return Err(SyntaxError("expected a literal"));
        }
        let bytes = match &mut self.frame.parts[self.part + 1] {
            Part::Literal(bytes) => std::mem::take(bytes),
            Part::Text(_) => Vec::new(),
        };
        self.part += 2;
        self.offset = 0;
        Ok(bytes)
    }

    /// Reads a literal of which bytes may have been returned before ([`super::Poll::Keep`]). Returns the other bytes,
    /// and the length of all.
    pub(crate) fn kept_literal(&mut self) -> Result<(Vec<u8>, usize), SyntaxError> {
        let part = self.part + 1;
        let rest = self.literal()?;
        let kept = self.frame.kept.iter().find(|kept| kept.part == part).map_or(0, |kept| kept.bytes);
        let length = kept + rest.len();
        Ok((rest, length))
    }

    /// Bytes of messages that were returned before the frame was complete.
    pub(crate) fn kept(&self) -> usize {
        self.frame.kept_bytes()
    }

    fn quoted(&mut self) -> Result<Vec<u8>, SyntaxError> {
        if let Some(value) = self.plainly_quoted() {
            let (value, length) = (value.to_vec(), value.len());
            self.offset += AROUND_QUOTED + length;
            return Ok(value);
        }
        self.byte(b'"', "expected a quoted string")?;
        self.escaped()
    }

    /// The content of the next quoted string if it has no escapes and no control characters.
    fn plainly_quoted(&self) -> Option<&[u8]> {
        let rest = self.rest().strip_prefix(b"\"")?;
        let (value, after) = rest.split_at(memchr::memchr2(b'"', b'\\', rest)?);
        let is_plain = after.starts_with(b"\"") && memchr::memchr2(b'\0', b'\r', value).is_none();
        is_plain.then_some(value)
    }

    /// Reads the content of a quoted string after its opening quote.
    fn escaped(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let mut value = Vec::new();
        let mut bytes = self.rest().iter().enumerate();
        while let Some((at, &byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.offset += at + 1;
                    return Ok(value);
                }
                b'\\' => match bytes.next() {
                    Some((_, &escaped @ (b'"' | b'\\'))) => value.push(escaped),
                    _ => return Err(SyntaxError("only quotes and backslashes may be escaped")),
                },
                b'\0' | b'\r' => return Err(SyntaxError("control character in a quoted string")),
                other => value.push(other),
            }
        }
        Err(SyntaxError("unterminated quoted string"))
    }

    /// Reads a quoted string or literal. Bytes above 127 are accepted (RFC 6855 clients send UTF-8); NUL is not
    /// (RFC 3501 section 9, `CHAR8`).
    pub fn string(&mut self) -> Result<Vec<u8>, SyntaxError> {
        if !self.at_literal() {
            return self.quoted();
        }
        let value = self.literal()?;
        if memchr::memchr(0, &value).is_some() {
            return Err(SyntaxError("NUL in a string"));
        }
        Ok(value)
    }

    /// Reads a quoted string or literal without NUL and converts it without a copy where possible.
    pub(crate) fn string_as<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Result<T, SyntaxError> {
        let Some(value) = self.plainly_quoted() else { return self.string().map(|value| read(&value)) };
        let (read, length) = (read(value), value.len());
        self.offset += AROUND_QUOTED + length;
        Ok(read)
    }

    /// Reads an atom (which may contain `]`), quoted string or literal.
    pub(crate) fn astring(&mut self) -> Result<Vec<u8>, SyntaxError> {
        self.string_or(is_astring_char)
    }

    /// Reads the name of a folder that a server lists: like [`Self::astring`], but its bare form may have 8-bit characters
    /// and wildcards.
    pub(crate) fn folder_name(&mut self) -> Result<Vec<u8>, SyntaxError> {
        if self.peek().is_none_or(|byte| byte == b'"') {
            return self.string();
        }
        let name: Vec<u8> = self.rest().iter().copied().take_while(|byte| *byte != b' ').collect();
        self.offset += name.len();
        if name.is_empty() { Err(SyntaxError("expected a string")) } else { Ok(name) }
    }

    /// Reads a LIST pattern: like [`Self::astring`], but the bare form may contain wildcards.
    pub(crate) fn list_pattern(&mut self) -> Result<Vec<u8>, SyntaxError> {
        self.string_or(is_list_char)
    }

    fn string_or(&mut self, accept: impl Fn(u8) -> bool) -> Result<Vec<u8>, SyntaxError> {
        if self.peek() == Some(b'"') || self.at_literal() {
            return self.string();
        }
        Ok(self.bare(accept, "expected a string")?.into())
    }

    /// Skips an [`Self::astring`].
    pub(crate) fn skip_astring(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'"') || self.at_literal() {
            return self.string().map(drop);
        }
        self.bare(is_astring_char, "expected a string").map(drop)
    }

    /// Reads an astring in UTF-8.
    pub(crate) fn astring_utf8(&mut self) -> Result<String, SyntaxError> {
        String::from_utf8(self.astring()?).map_err(|_| SyntaxError("string is not UTF-8"))
    }

    /// Reads a string, or `NIL` as `None`.
    pub(crate) fn nstring(&mut self) -> Result<Option<Vec<u8>>, SyntaxError> {
        if self.try_keyword("NIL") { Ok(None) } else { self.string().map(Some) }
    }

    /// Counts a value that will be held; fails when the frame has too many.
    pub fn count(&mut self) -> Result<(), SyntaxError> {
        self.values += 1;
        if self.values <= MOST_VALUES { Ok(()) } else { Err(TOO_MANY) }
    }

    /// Runs `read` one level deeper. Fails at the maximum depth, so that recursion is bounded.
    pub(crate) fn descend<T, E: From<SyntaxError>>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.depth >= self.max_depth {
            return Err(SyntaxError("nested too deeply").into());
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Reads a parenthesized list, possibly empty, of elements separated by spaces.
    pub fn list<T, E: From<SyntaxError>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        self.byte(b'(', "expected a list")?;
        self.descend(|cursor| {
            let (mut elements, mut is_separated) = (Vec::new(), false);
            cursor.try_space();
            while !cursor.try_byte(b')') {
                if !elements.is_empty() && !is_separated {
                    return Err(SyntaxError("expected a space").into());
                }
                cursor.count()?;
                elements.push(element(cursor)?);
                is_separated = cursor.try_space();
            }
            Ok(elements)
        })
    }

    /// Reads any value.
    pub fn value(&mut self) -> Result<Value, SyntaxError> {
        match self.peek() {
            Some(b'(') => self.list(Self::value).map(Value::List),
            Some(b'"') | None => self.string().map(Value::String),
            Some(_) if self.try_keyword("NIL") => Ok(Value::Nil),
            Some(b'\\') => self.flag().map(Value::Atom),
            Some(_) => self.atom().map(Value::Atom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cursor(text: &str) -> Cursor {
        Cursor::new(Frame::new(vec![Part::Text(text.as_bytes().to_vec())]), 4)
    }

    #[test]
    fn broken_strings_are_refused() {
        for text in ["\"open", "\"a\\n\"", "\"a\u{0}\"", "\"a\rb\"", "", "(", "~"] {
            assert!(cursor(text).string().is_err(), "{text:?}");
        }
        let nul = Frame::new(vec![Part::Text(vec![]), Part::Literal(vec![0]), Part::Text(vec![])]);
        assert!(Cursor::new(nul, 4).string().is_err());
    }

    #[test]
    fn nesting_beyond_the_cap_is_refused() {
        assert!(cursor("((((1))))").value().is_ok());
        assert_eq!(cursor("(((((1)))))").value().err(), Some(SyntaxError("nested too deeply")));
        assert!(cursor(&"(".repeat(10_000)).value().is_err());
    }

    #[test]
    fn words_that_are_no_flags_do_not_hide_the_others() {
        let read = |text: &str| cursor(text).written_flags();
        assert_eq!(
            read("(\\Seen [x] \"a b\" \\Odd! \u{fc}  $Junk )").unwrap(),
            ["\\Seen", "[x]", "a b", "\\Odd!", "\u{fc}", "$Junk"]
        );
        assert_eq!(read("()").unwrap().len(), 0);
        for text in ["", "(", "(a", "(\"a)", "\\Seen"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tokens_are_read_in_order() {
        let mut cursor = cursor("a1 \"q\\\"\\\\\" NIL 4294967295 (x \\Seen) ");
        assert_eq!(cursor.tag().unwrap(), "a1");
        cursor.space().unwrap();
        assert_eq!(cursor.astring().unwrap(), b"q\"\\");
        cursor.space().unwrap();
        assert_eq!(cursor.nstring().unwrap(), None);
        cursor.space().unwrap();
        assert_eq!(cursor.number().unwrap(), u32::MAX);
        cursor.space().unwrap();
        assert_eq!(cursor.list(Cursor::flag).unwrap(), ["x", "\\Seen"]);
        assert_eq!(cursor.end(), Ok(()));
    }

    #[test]
    fn further_spaces_change_nothing() {
        for text in ["(x)", "( x)", "(x )", "(  x  )"] {
            assert_eq!(cursor(text).list(Cursor::flag).unwrap(), ["x"], "{text:?}");
        }
        assert!(cursor("( )").list(Cursor::flag).unwrap().is_empty());
        assert_eq!(cursor("(a  b)").list(Cursor::flag).unwrap(), ["a", "b"]);
        for text in ["(a\"b\")", "((a)(b))", "(a", "( ", " (a)"] {
            assert!(cursor(text).value().is_err(), "{text:?}");
        }
        assert_eq!(cursor("x").space(), Err(SyntaxError("expected a space")));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in prop::collection::vec(any::<u8>(), 0..60), bytes in any::<Option<Vec<u8>>>()) {
            let mut parts = vec![Part::Text(text)];
            if let Some(bytes) = bytes {
                parts.extend([Part::Literal(bytes), Part::Text(b"x".to_vec())]);
            }
            let frame = Frame::new(parts);
            let _ = Cursor::new(frame.clone(), 4).value();
            let _ = Cursor::new(frame.clone(), 4).astring();
            let _ = Cursor::new(frame.clone(), 4).sequence_set();
            let _ = Cursor::new(frame.clone(), 4).written_flags();
            let _ = Cursor::new(frame.clone(), 4).folder_name();
            let _ = Cursor::new(frame, 4).list(Cursor::flag);
        }
    }
}
