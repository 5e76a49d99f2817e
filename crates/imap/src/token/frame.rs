//! A whole command or response: text with literals in between.

use std::fmt;

/// A part of a [`Frame`].
#[derive(Clone, PartialEq, Eq)]
pub enum Part {
    /// Text of one line, without the line end and the `{n}` of a following literal.
    Text(Vec<u8>),
    /// The octets of a literal.
    Literal(Vec<u8>),
}

/// A command or response as received; [`super::Cursor`] reads it.
///
/// `Debug` shows sizes only: a frame may hold a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Frame {
    pub(super) parts: Vec<Part>,
    /// Bytes of an APPEND's message that were returned before the frame was complete; its literal holds the rest.
    pub(super) kept: usize,
}

impl Frame {
    /// A frame of the given parts, in order.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts, kept: 0 }
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The tag, if it is well-formed, so that an otherwise unreadable command can be completed.
    pub fn tag(&self) -> Option<String> {
        let word = self.words().next()?;
        super::is_tag(word).then(|| String::from_utf8_lossy(word).into_owned())
    }

    /// The second word: the name of a command, or the status of a response.
    pub(super) fn verb(&self) -> Option<&[u8]> {
        self.words().nth(1)
    }

    /// Whether there is text between the second word and the last literal.
    pub(super) fn has_arguments(&self) -> bool {
        let texts = self.parts.iter().filter(|part| matches!(part, Part::Text(_))).count();
        texts > 1 || self.words().skip(2).any(|word| !word.is_empty())
    }

    fn words(&self) -> impl Iterator<Item = &[u8]> {
        let first = match self.parts.first() {
            Some(Part::Text(text)) => text.as_slice(),
            _ => &[],
        };
        first.split(|&byte| byte == b' ')
    }

    pub(super) fn text_len(&self) -> usize {
        self.parts.iter().map(|part| if let Part::Text(text) = part { text.len() } else { 0 }).sum()
    }

    pub(super) fn literal_len(&self) -> usize {
        self.parts.iter().map(|part| if let Part::Literal(bytes) = part { bytes.len() } else { 0 }).sum()
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("text", &self.text_len()).field("literals", &self.literal_len()).finish()
    }
}
