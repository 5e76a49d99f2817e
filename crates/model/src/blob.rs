//! The content of a message or attachment, in memory or elsewhere.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// Immutable content outside memory with random access.
pub trait BlobSource: Send + Sync {
    /// Returns the length in bytes.
    fn len(&self) -> usize;

    /// Returns whether the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads bytes starting at `offset`; returns their number, which is zero only at the end or if `buffer`
    /// is empty.
    ///
    /// # Errors
    /// When the content cannot be read at the moment.
    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize>;
}

/// Content in memory, elsewhere ([`BlobSource`]), or in parts of both. Clones and slices share it.
///
/// Content outside memory is read on demand, which may block: see [`Blob::in_memory`].
#[derive(Clone)]
pub struct Blob(Place);

#[derive(Clone)]
enum Place {
    Memory(Bytes),
    Elsewhere(Stretch),
    /// At least two parts, none of them empty or joined itself.
    Joined(Arc<[Place]>, Range<usize>),
}

/// A range of a source.
#[derive(Clone)]
struct Stretch {
    source: Arc<dyn BlobSource>,
    range: Range<usize>,
}

impl Blob {
    /// Creates content from a whole source.
    #[must_use]
    pub fn elsewhere(source: Arc<dyn BlobSource>) -> Self {
        let range = 0..source.len();
        Self(Place::Elsewhere(Stretch { source, range }))
    }

    /// Concatenates content without copying. Content of many parts is slower to read.
    #[must_use]
    pub fn joined(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut places = Vec::new();
        for Self(place) in parts {
            match place {
                // Flatten nested parts, so that reads do not recurse.
                Place::Joined(inner, range) => places.extend(overlapping(&inner, &range)),
                single => places.push(single),
            }
        }
        places.retain(|place| place.len() > 0);
        match places.len() {
            0 => Self(Place::Memory(Bytes::new())),
            1 => Self(places.remove(0)),
            _ => {
                let length = places.iter().map(Place::len).sum();
                Self(Place::Joined(places.into(), 0..length))
            }
        }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the length is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the whole content if it is contiguous in memory; reading it then never blocks and never fails.
    #[must_use]
    pub const fn in_memory(&self) -> Option<&Bytes> {
        match &self.0 {
            Place::Memory(bytes) => Some(bytes),
            Place::Elsewhere(_) | Place::Joined(..) => None,
        }
    }

    /// Converts into bytes if the content is contiguous in memory.
    ///
    /// # Errors
    /// The content itself, if it is elsewhere.
    pub fn into_bytes(self) -> Result<Bytes, Self> {
        match self.0 {
            Place::Memory(bytes) => Ok(bytes),
            elsewhere => Err(Self(elsewhere)),
        }
    }

    /// Returns a range; a range beyond the end is truncated.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self(self.0.slice(&range))
    }

    /// Reads bytes starting at `offset`; returns their number, which is zero only at the end or if `buffer`
    /// is empty. May block.
    ///
    /// # Errors
    /// When the content cannot be read at the moment.
    pub fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    /// Reads the whole content into memory; only for content known to be small. May block.
    ///
    /// # Errors
    /// When the content cannot be read at the moment.
    pub fn to_bytes(&self) -> io::Result<Bytes> {
        if let Some(bytes) = self.in_memory() {
            return Ok(bytes.clone());
        }
        let mut bytes = vec![0; self.len()];
        self.read_exact_at(0, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Returns the content in pieces of at most `max` bytes (at least one). Each piece is read on demand,
    /// which may block; an error ends the iteration.
    #[must_use]
    pub fn pieces(&self, max: usize) -> Pieces {
        Pieces { rest: self.clone(), max: max.max(1) }
    }

    /// Returns a sequential reader. Reads may block; buffering saves calls.
    #[must_use]
    pub fn reader(&self) -> BlobReader {
        BlobReader { bytes: self.clone(), at: 0 }
    }

    fn read_exact_at(&self, mut offset: usize, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = self.read_at(offset, buffer)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            offset += read;
            buffer = &mut buffer[read..];
        }
        Ok(())
    }
}

impl Place {
    fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Elsewhere(stretch) => stretch.range.len(),
            Self::Joined(_, range) => range.len(),
        }
    }

    fn slice(&self, range: &Range<usize>) -> Self {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        match self {
            Self::Memory(bytes) => Self::Memory(bytes.slice(start..end)),
            Self::Elsewhere(Stretch { source, range }) => {
                let range = range.start + start..range.start + end;
                Self::Elsewhere(Stretch { source: Arc::clone(source), range })
            }
            Self::Joined(parts, range) => {
                let range = range.start + start..range.start + end;
                let mut overlapping = overlapping(parts, &range);
                match (overlapping.next(), overlapping.next()) {
                    (None, _) => Self::Memory(Bytes::new()),
                    (Some(only), None) => only,
                    (Some(_), Some(_)) => Self::Joined(Arc::clone(parts), range),
                }
            }
        }
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(self.len().saturating_sub(offset));
        if wanted == 0 {
            return Ok(0);
        }
        let buffer = &mut buffer[..wanted];
        match self {
            Self::Memory(bytes) => buffer.copy_from_slice(&bytes[offset..offset + wanted]),
            Self::Elsewhere(Stretch { source, range }) => return source.read_at(range.start + offset, buffer),
            Self::Joined(parts, range) => {
                let mut at = range.start + offset;
                for part in parts.iter() {
                    if at < part.len() {
                        // A short read at the end of a part is allowed; callers read again.
                        return part.read_at(at, buffer);
                    }
                    at -= part.len();
                }
                return Ok(0);
            }
        }
        Ok(wanted)
    }
}

/// Returns the parts that overlap a range, each cut to it.
fn overlapping<'a>(parts: &'a [Place], range: &Range<usize>) -> impl Iterator<Item = Place> + use<'a> {
    let (mut begin, range) = (0, range.clone());
    parts.iter().filter_map(move |part| {
        let end = begin + part.len();
        let within = range.start.max(begin)..range.end.min(end);
        let cut = (within.start < within.end).then(|| part.slice(&(within.start - begin..within.end - begin)));
        begin = end;
        cut
    })
}

/// See [`Blob::pieces`].
#[derive(Debug, Clone)]
pub struct Pieces {
    rest: Blob,
    max: usize,
}

impl Iterator for Pieces {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.max.min(self.rest.len());
        let piece = self.rest.slice(0..end).to_bytes();
        // An error ends the iteration.
        self.rest = if piece.is_ok() { self.rest.slice(end..usize::MAX) } else { Blob::default() };
        Some(piece)
    }
}

/// See [`Blob::reader`].
#[derive(Debug, Clone)]
pub struct BlobReader {
    bytes: Blob,
    at: usize,
}

impl io::Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read_at(self.at, buffer)?;
        self.at += read;
        Ok(read)
    }
}

impl Default for Blob {
    fn default() -> Self {
        Self::from(Bytes::new())
    }
}

impl From<Bytes> for Blob {
    fn from(bytes: Bytes) -> Self {
        Self(Place::Memory(bytes))
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl From<String> for Blob {
    fn from(text: String) -> Self {
        Self::from(text.into_bytes())
    }
}

/// Prints only the length: content does not belong into logs.
impl fmt::Debug for Blob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Octets").field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    /// A source that returns few bytes per read.
    struct Slow(Vec<u8>);

    impl BlobSource for Slow {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize> {
            let rest = &self.0[offset.min(self.0.len())..];
            let read = rest.len().min(buffer.len()).min(3);
            buffer[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        }
    }

    /// A source that cannot be read, or lost some of its content.
    struct Broken(bool);

    impl BlobSource for Broken {
        fn len(&self) -> usize {
            10
        }

        fn read_at(&self, _: usize, _: &mut [u8]) -> io::Result<usize> {
            if self.0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(0) }
        }
    }

    fn slow(bytes: &[u8]) -> Blob {
        Blob::elsewhere(Arc::new(Slow(bytes.to_vec())))
    }

    #[test]
    fn unreadable_bytes_are_one_error_and_never_a_short_read() {
        for lost in [true, false] {
            let bytes = Blob::joined([Blob::from(vec![1, 2]), Blob::elsewhere(Arc::new(Broken(lost)))]);
            assert!(bytes.to_bytes().is_err());
            let mut pieces = bytes.pieces(2);
            assert_eq!(pieces.next().unwrap().unwrap(), [1, 2].as_slice());
            assert!(pieces.next().unwrap().is_err());
            assert!(pieces.next().is_none());
        }
    }

    #[test]
    fn a_log_shows_no_more_than_the_length() {
        assert_eq!(format!("{:?}", Blob::from(b"secret".to_vec())), "Octets { len: 6 }");
        assert_eq!(format!("{:?}", slow(b"secret").slice(1..4)), "Octets { len: 3 }");
    }

    proptest! {
        #[test]
        fn wherever_the_parts_lie_the_bytes_are_the_same(
            parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..12), 0_u8..3), 0..8),
            (start, length, from, more) in (0_usize..60, 0_usize..60, 0_usize..60, 0_usize..60),
            max in 0_usize..9,
        ) {
            let whole: Vec<u8> = parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            let place = |(bytes, kind): &(Vec<u8>, u8)| match kind {
                0 => Blob::from(bytes.clone()),
                1 => slow(bytes),
                _ => Blob::joined([slow(&bytes[..bytes.len() / 2]), slow(&bytes[bytes.len() / 2..])]),
            };
            let bytes = Blob::joined(parts.iter().map(place));
            let cut = |range: Range<usize>, of: &[u8]| of[range.start.min(of.len())..range.end.min(of.len())].to_vec();
            let once = (bytes.slice(start..start + length), cut(start..start + length, &whole));
            let twice = (once.0.slice(from..from + more), cut(from..from + more, &once.1));
            for (bytes, expected) in [(bytes, whole), once, twice] {
                prop_assert_eq!(bytes.len(), expected.len());
                prop_assert_eq!(bytes.is_empty(), expected.is_empty());
                prop_assert_eq!(&bytes.to_bytes().unwrap()[..], &expected[..]);
                let pieces: Vec<Bytes> = bytes.pieces(max).map(Result::unwrap).collect();
                prop_assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= max.max(1)));
                prop_assert_eq!(&pieces.concat(), &expected);
                let mut read = Vec::new();
                bytes.reader().read_to_end(&mut read).unwrap();
                prop_assert_eq!(read, expected);
            }
        }
    }
}
