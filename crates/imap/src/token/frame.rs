//! One whole command or response: lines of text with the literals between them.

use std::fmt;

/// A stretch of a [`Frame`].
#[derive(Clone, PartialEq, Eq)]
pub enum Part {
    /// Text of one line, without the line end and without the `{n}` that announces a literal.
    Text(Vec<u8>),
    /// The octets of a literal.
    Literal(Vec<u8>),
}

/// One command or response as it came over the wire; [`super::Cursor`] reads it.
///
/// It may hold a password, so `Debug` shows sizes only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Frame {
    pub(super) parts: Vec<Part>,
    /// Octets of the message of an APPEND that were handed out before the frame was complete; its literal holds the
    /// rest.
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

    /// The first word, when it is a well-formed tag: enough to answer a command that is
    /// otherwise unreadable.
    pub fn tag(&self) -> Option<String> {
        let word = self.words().next()?;
        super::is_tag(word).then(|| String::from_utf8_lossy(word).into_owned())
    }

    /// The second word: the command's name, or a response's status.
    pub(super) fn verb(&self) -> Option<&[u8]> {
        self.words().nth(1)
    }

    /// Whether anything follows the second word and stands before the newest literal.
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
        self.parts.iter().map(|part| if let Part::Literal(octets) = part { octets.len() } else { 0 }).sum()
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("text", &self.text_len()).field("literals", &self.literal_len()).finish()
    }
}
