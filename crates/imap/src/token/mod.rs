//! The tokenizer and encoder of both sides of a connection (RFC 3501 sections 4 and 9).
//!
//! [`FrameReader`] splits the stream into frames, and [`Cursor`] reads the tokens of one frame. [`Writer`] encodes
//! tokens so that no value can be read as protocol.

mod cursor;
mod frame;
mod limits;
mod reader;
mod sequence;
mod writer;

pub(crate) use cursor::TOO_MANY;
pub use cursor::{Cursor, SyntaxError, Value};
pub use frame::{Frame, Part};
pub use limits::Limits;
pub use reader::{FrameReader, LinePoll, Poll, Refusal, Side, StreamPoll};
pub use sequence::{SequenceNumber, SequenceSet};
pub use writer::{Span, Writer, without_nul};

/// `ATOM-CHAR`: any character except controls, 8-bit, space and the specials.
pub(crate) fn is_atom_char(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'(' | b')' | b'{' | b'%' | b'*' | b'"' | b'\\' | b']')
}

/// `ASTRING-CHAR`: an atom's characters and `]`.
pub(crate) fn is_astring_char(byte: u8) -> bool {
    is_atom_char(byte) || byte == b']'
}

/// `list-char`: an astring's characters and the two wildcards.
pub(crate) fn is_list_char(byte: u8) -> bool {
    is_astring_char(byte) || matches!(byte, b'%' | b'*')
}

/// `tag`: one or more characters of an astring except `+`.
pub(crate) fn is_tag(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|&byte| is_astring_char(byte) && byte != b'+')
}
