//! Sources of a message being parsed: memory, or a file. Both give the same result, wherever the message is
//! stored.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io;
use std::ops::Range;

use mailapi_model::Blob;
use memchr::memchr;

use super::limits::Limits;

/// A source of bytes with access by line.
pub(super) trait Source {
    /// The error of a failed read.
    type Error;

    /// Returns the number of bytes.
    fn len(&self) -> usize;

    /// Returns the line that starts at `start`, which must be within the source.
    fn line(&mut self, start: usize) -> Result<Line<'_>, Self::Error>;

    /// Returns the bytes of a range within the source. They may be copied, so keep ranges small.
    fn get(&mut self, range: Range<usize>) -> Result<Cow<'_, [u8]>, Self::Error>;
}

/// A line including its line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Start of the next line.
    pub(super) end: usize,
    /// The line, truncated to [`Limits::max_line_bytes`].
    pub(super) text: &'a [u8],
    /// Whether `text` is the whole line.
    pub(super) is_whole: bool,
}

impl<'a> Line<'a> {
    fn new(start: usize, end: usize, bytes: &'a [u8], max: usize) -> Self {
        let length = end - start;
        Self { end, text: &bytes[..length.min(max)], is_whole: length <= max }
    }
}

/// A message in memory.
pub(super) struct Slice<'a> {
    bytes: &'a [u8],
    max_line: usize,
}

impl<'a> Slice<'a> {
    pub(super) const fn new(bytes: &'a [u8], limits: &Limits) -> Self {
        Self { bytes, max_line: limits.max_line_bytes }
    }
}

impl Source for Slice<'_> {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn line(&mut self, start: usize) -> Result<Line<'_>, Infallible> {
        let rest = &self.bytes[start..];
        let end = memchr(b'\n', rest).map_or(self.bytes.len(), |at| start + at + 1);
        Ok(Line::new(start, end, rest, self.max_line))
    }

    fn get(&mut self, range: Range<usize>) -> Result<Cow<'_, [u8]>, Infallible> {
        Ok(Cow::Borrowed(&self.bytes[range]))
    }
}

/// A message that is read piece by piece. Blocks.
pub(super) struct Window<'a> {
    bytes: &'a Blob,
    max_line: usize,
    /// The piece read last, and its offset.
    piece: Vec<u8>,
    start: usize,
    /// Length of a piece; at least the limit of a line.
    piece_len: usize,
}

impl<'a> Window<'a> {
    /// Default length of a piece.
    pub(super) const PIECE: usize = 128 * 1024;

    pub(super) fn new(bytes: &'a Blob, piece_len: usize, limits: &Limits) -> Self {
        let max_line = limits.max_line_bytes;
        Self { bytes, max_line, piece: Vec::new(), start: 0, piece_len: piece_len.max(max_line).max(1) }
    }

    fn piece_end(&self) -> usize {
        self.start + self.piece.len()
    }

    /// Reads the piece that starts at `start`.
    fn read_from(&mut self, start: usize) -> io::Result<()> {
        let mut piece = std::mem::take(&mut self.piece);
        piece.resize(self.piece_len.min(self.bytes.len() - start), 0);
        read_exact(self.bytes, start, &mut piece)?;
        (self.start, self.piece) = (start, piece);
        Ok(())
    }

    /// Returns the end of the line that continues at `from`.
    fn line_end(&self, from: usize) -> io::Result<usize> {
        let mut at = from;
        for piece in self.bytes.slice(from..self.bytes.len()).pieces(self.piece_len) {
            let piece = piece?;
            match memchr(b'\n', &piece) {
                Some(found) => return Ok(at + found + 1),
                None => at += piece.len(),
            }
        }
        Ok(at)
    }
}

impl Source for Window<'_> {
    type Error = io::Error;

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn line(&mut self, start: usize) -> io::Result<Line<'_>> {
        if !(self.start..self.piece_end()).contains(&start) {
            self.read_from(start)?;
        }
        let mut found = memchr(b'\n', &self.piece[start - self.start..]);
        // The line may continue after the piece: read again, starting at the line.
        if found.is_none() && self.start < start && self.piece_end() < self.len() {
            self.read_from(start)?;
            found = memchr(b'\n', &self.piece);
        }
        let end = match found {
            Some(at) => start + at + 1,
            // The piece already contains the line up to its limit, so only its end is needed.
            None => self.line_end(self.piece_end())?,
        };
        Ok(Line::new(start, end, &self.piece[start - self.start..], self.max_line))
    }

    fn get(&mut self, range: Range<usize>) -> io::Result<Cow<'_, [u8]>> {
        if range.len() > self.piece_len {
            let mut bytes = vec![0; range.len()];
            read_exact(self.bytes, range.start, &mut bytes)?;
            return Ok(Cow::Owned(bytes));
        }
        if range.start < self.start || range.end > self.piece_end() {
            self.read_from(range.start)?;
        }
        Ok(Cow::Borrowed(&self.piece[range.start - self.start..range.end - self.start]))
    }
}

fn read_exact(bytes: &Blob, mut start: usize, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match bytes.read_at(start, buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                start += read;
                buffer = &mut buffer[read..];
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn wherever_bytes_lie_their_lines_are_the_same(
            bytes in prop::collection::vec(prop_oneof![3 => Just(b'a'), 1 => Just(b'\n'), 1 => any::<u8>()], 1..80),
            places in prop::collection::vec((0_usize..80, 0_usize..30), 1..20),
            (piece_len, max_line) in (1_usize..20, 1_usize..20),
        ) {
            let limits = Limits { max_line_bytes: max_line, ..Limits::default() };
            let elsewhere = Blob::from(bytes.clone());
            let (mut slice, mut window) = (Slice::new(&bytes, &limits), Window::new(&elsewhere, piece_len, &limits));
            for (start, length) in places {
                let start = start % bytes.len();
                let Ok(expected) = slice.line(start);
                prop_assert_eq!(window.line(start).unwrap(), expected);
                let range = start..(start + length).min(bytes.len());
                let Ok(expected) = slice.get(range.clone());
                prop_assert_eq!(window.get(range).unwrap(), expected);
            }
        }
    }
}
