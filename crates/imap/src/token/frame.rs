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

/// A literal of which bytes were returned before its frame was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    /// The index of its part.
    pub(super) part: usize,
    /// The number of bytes returned.
    pub(super) bytes: usize,
}

/// A command or response as received; [`super::Cursor`] reads it.
///
/// `Debug` shows sizes only: a frame may hold a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Frame {
    pub(super) parts: Vec<Part>,
    /// Messages of an APPEND of which bytes were returned before the frame was complete; their literals hold the rest.
    pub(super) kept: Vec<Kept>,
}

impl Frame {
    /// A frame of the given parts, in order.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts, kept: Vec::new() }
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

    /// The index of the first literal that is not the first argument. Its part need not exist yet.
    pub(super) fn second_argument(&self) -> usize {
        if self.words().skip(2).any(|word| !word.is_empty()) { 1 } else { 3 }
    }

    /// Bytes that were returned before the frame was complete.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|kept| kept.bytes).sum()
    }

    /// Takes the bytes of the literals from the part `first`, in order, and notes how many each had.
    pub(super) fn take_literals(&mut self, first: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        for (part, content) in self.parts.iter_mut().enumerate().skip(first) {
            let Part::Literal(literal) = content else { continue };
            // Earlier ones were taken before.
            if literal.is_empty() {
                continue;
            }
            let bytes = std::mem::take(literal);
            match self.kept.last_mut().filter(|kept| kept.part == part) {
                Some(kept) => kept.bytes += bytes.len(),
                None => self.kept.push(Kept { part, bytes: bytes.len() }),
            }
            // Usually there is one, which is moved.
            if taken.is_empty() { taken = bytes } else { taken.extend(bytes) }
        }
        taken
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
