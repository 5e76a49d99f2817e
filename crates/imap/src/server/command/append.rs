//! The arguments of APPEND (RFC 3501 section 6.3.11, RFC 3502).

use std::fmt;

use jiff::Timestamp;

use super::CommandError;
use super::store::flag_list;
use crate::datetime::parse_date_time;
use crate::flag::Flags;
use crate::token::{Cursor, SyntaxError};

/// The messages to store: all or none.
#[derive(Clone, PartialEq, Eq)]
pub struct AppendMessages {
    /// The messages, at least one.
    pub messages: Vec<AppendMessage>,
    /// The octets of all messages, one after the other.
    pub bytes: Vec<u8>,
    /// Octets already returned by [`crate::server::session::Step::Keep`]; `bytes` continue after them.
    pub kept: usize,
}

/// A message to store, without its octets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendMessage {
    /// The initial flags.
    pub flags: Flags,
    /// The internal date; `None` means now.
    pub internal_date: Option<Timestamp>,
    /// The number of its octets, never zero: headers, empty line, body.
    pub length: usize,
}

impl fmt::Debug for AppendMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.kept + self.bytes.len();
        f.debug_struct("AppendMessages").field("messages", &self.messages).field("bytes", &bytes).finish()
    }
}

pub(super) fn messages(cursor: &mut Cursor) -> Result<AppendMessages, CommandError> {
    let (first, mut bytes) = message(cursor)?;
    let mut messages = vec![first];
    while !cursor.at_end() {
        cursor.space()?;
        let (next, more) = message(cursor)?;
        messages.push(next);
        bytes.extend(more);
    }
    Ok(AppendMessages { messages, bytes, kept: cursor.kept() })
}

/// Reads one message, and those of its octets that were not returned before.
fn message(cursor: &mut Cursor) -> Result<(AppendMessage, Vec<u8>), CommandError> {
    let mut flags = Flags::new();
    if cursor.peek() == Some(b'(') {
        flags = flag_list(cursor)?;
        cursor.space()?;
    }
    let mut internal_date = None;
    if cursor.peek() == Some(b'"') {
        let text = cursor.astring_utf8()?;
        internal_date = Some(parse_date_time(&text).ok_or(SyntaxError("invalid date-time"))?);
        cursor.space()?;
    }
    let (bytes, length) = octets(cursor)?;
    // With an empty one, a client cancels the whole command (RFC 3502 section 3).
    if length == 0 {
        return Err(CommandError::Refused { code: "CANNOT", text: "A message cannot be empty" });
    }
    Ok((AppendMessage { flags, internal_date, length }, bytes))
}

/// Reads `{n}`, `~{n}` or `UTF8 (~{n})`, the form for header fields in UTF-8 (RFC 6855 section 4). All are stored as they
/// are. `~` begins a literal8 (RFC 3516 section 4.4), which may contain NUL; other literals may here as well.
fn octets(cursor: &mut Cursor) -> Result<(Vec<u8>, usize), SyntaxError> {
    if !cursor.try_keyword("UTF8") {
        cursor.try_byte(b'~');
        return cursor.kept_literal();
    }
    cursor.space()?;
    cursor.byte(b'(', "expected a list")?;
    cursor.byte(b'~', "expected a literal8")?;
    let octets = cursor.kept_literal()?;
    cursor.byte(b')', "expected the end of the list")?;
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Command, TaggedCommand};
    use super::*;
    use crate::token::{FrameReader, Limits, Poll, Side};

    /// The messages of a command as the reader passes it on, with what it returned before.
    fn read(wire: &[u8], size: usize, piece: usize) -> Option<(Vec<AppendMessage>, Vec<u8>)> {
        let mut reader =
            FrameReader::new(Side::Server, Limits { message_piece: piece, max_line: 100_000, ..Limits::default() });
        reader.accept_messages();
        let mut kept = Vec::new();
        for chunk in wire.chunks(size) {
            reader.feed(chunk);
            loop {
                match reader.poll() {
                    Poll::Keep { bytes, .. } => kept.extend(bytes),
                    Poll::Frame(frame) => {
                        let command = TaggedCommand::parse(frame, &Limits::default(), false).ok()?.command;
                        let Command::Append { messages, .. } = command else { return None };
                        assert_eq!(messages.kept, kept.len());
                        kept.extend(messages.bytes);
                        return Some((messages.messages, kept));
                    }
                    _ => break,
                }
            }
        }
        None
    }

    #[test]
    fn each_message_has_its_own_flags_and_date() {
        let wire = b"a APPEND x (\\Seen) \"01-Jan-2024 00:00:00 +0000\" {3+}\r\none (k) {3+}\r\ntwo {5+}\r\nthree\r\n";
        let (messages, bytes) = read(wire, 1000, 1000).unwrap();
        assert_eq!(bytes, b"onetwothree");
        assert_eq!(messages.iter().map(|message| message.length).collect::<Vec<_>>(), [3, 3, 5]);
        assert_eq!(messages[1].flags, Flags::from_words(["k"]));
        assert!(messages[0].internal_date.is_some() && messages[1].internal_date.is_none());
        let (messages, bytes) = read(b"a APPEND x () ~{3+}\r\n\0ab ~{1+}\r\n\0\r\n", 1000, 1000).unwrap();
        assert_eq!((messages.len(), &bytes[..]), (2, &b"\0ab\0"[..]));
        let wire = "a APPEND x UTF8 (~{2+}\r\né) () UTF8 (~{1+}\r\nb)\r\n";
        let (messages, bytes) = read(wire.as_bytes(), 1000, 1000).unwrap();
        assert_eq!((messages.len(), &bytes[..]), (2, "éb".as_bytes()));
        for wire in ["UTF8 ({1+}\r\na)", "UTF8 (~{1+}\r\na", "UTF8 ~{1+}\r\na", "UTF8 (~{0+}\r\n)"] {
            assert!(read(format!("a APPEND x {wire}\r\n").as_bytes(), 1000, 1000).is_none(), "{wire}");
        }
        assert!(read(b"a APPEND ~{1+}\r\nx {3+}\r\none\r\n", 1000, 1000).is_none());
        assert!(read(b"a APPEND x {3+}\r\none{3+}\r\ntwo\r\n", 1000, 1000).is_none());
        assert!(read(b"a APPEND x {3+}\r\none {0+}\r\n\r\n", 1000, 1000).is_none());
    }

    proptest! {
        #[test]
        fn messages_do_not_depend_on_pieces(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 1..8),
            size in 1usize..50,
            piece in 0usize..100,
        ) {
            let mut wire = b"a APPEND {1+}\r\nx".to_vec();
            for body in &bodies {
                wire.extend(format!(" {{{}+}}\r\n", body.len()).into_bytes());
                wire.extend(body);
            }
            wire.extend(b"\r\n");
            let (messages, bytes) = read(&wire, size, piece).unwrap();
            prop_assert_eq!(bytes, bodies.concat());
            let lengths: Vec<_> = messages.iter().map(|message| message.length).collect();
            prop_assert_eq!(lengths, bodies.iter().map(Vec::len).collect::<Vec<_>>());
        }
    }
}
