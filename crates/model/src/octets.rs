//! Octets of a message or attachment, wherever they lie.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// Octets outside of memory, which can be read from any place and do not change.
pub trait OctetSource: Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads octets from `offset` on; how many, which is zero only at the end or when `buffer` is empty.
    ///
    /// # Errors
    /// When they cannot be read at the moment.
    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize>;
}

/// Octets that lie in memory, or elsewhere ([`OctetSource`]), or some here and some there. Clones and slices share
/// them.
///
/// What does not lie in memory is read when it is asked for, which may block: see [`Octets::in_memory`].
#[derive(Clone)]
pub struct Octets(Place);

#[derive(Clone)]
enum Place {
    Memory(Bytes),
    Elsewhere(Stretch),
    /// At least two, none of them empty, none of them joined itself.
    Joined(Arc<[Place]>, Range<usize>),
}

/// A stretch of a source.
#[derive(Clone)]
struct Stretch {
    source: Arc<dyn OctetSource>,
    range: Range<usize>,
}

impl Octets {
    /// All octets of a source.
    #[must_use]
    pub fn elsewhere(source: Arc<dyn OctetSource>) -> Self {
        let range = 0..source.len();
        Self(Place::Elsewhere(Stretch { source, range }))
    }

    /// Octets one behind the other. None are copied, so what has many parts reads slower than one of a few.
    #[must_use]
    pub fn joined(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut places = Vec::new();
        for Self(place) in parts {
            match place {
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

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, when they lie in memory in one piece: then reading them never blocks and never fails.
    #[must_use]
    pub const fn in_memory(&self) -> Option<&Bytes> {
        match &self.0 {
            Place::Memory(octets) => Some(octets),
            Place::Elsewhere(_) | Place::Joined(..) => None,
        }
    }

    /// All of them, when they lie in memory in one piece; otherwise they are given back.
    ///
    /// # Errors
    /// The octets, when they lie elsewhere.
    pub fn into_bytes(self) -> Result<Bytes, Self> {
        match self.0 {
            Place::Memory(octets) => Ok(octets),
            elsewhere => Err(Self(elsewhere)),
        }
    }

    /// The octets of a range; what of it lies behind the end is left out.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self(self.0.slice(&range))
    }

    /// Reads octets from `offset` on; how many, which is zero only at the end or when `buffer` is empty. May block.
    ///
    /// # Errors
    /// When they cannot be read at the moment.
    pub fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    /// All of them in memory: for octets that are known to be few. May block.
    ///
    /// # Errors
    /// When they cannot be read at the moment.
    pub fn to_bytes(&self) -> io::Result<Bytes> {
        if let Some(octets) = self.in_memory() {
            return Ok(octets.clone());
        }
        let mut octets = vec![0; self.len()];
        self.read_exact_at(0, &mut octets)?;
        Ok(octets.into())
    }

    /// All of them in pieces of at most `max` octets (at least one). Each piece is read when it is asked for, which may
    /// block; after an error there are none.
    #[must_use]
    pub fn pieces(&self, max: usize) -> Pieces {
        Pieces { rest: self.clone(), max: max.max(1) }
    }

    /// Reads them one after the other. May block; a buffer around it saves calls.
    #[must_use]
    pub fn reader(&self) -> OctetReader {
        OctetReader { octets: self.clone(), at: 0 }
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
            Self::Memory(octets) => octets.len(),
            Self::Elsewhere(stretch) => stretch.range.len(),
            Self::Joined(_, range) => range.len(),
        }
    }

    fn slice(&self, range: &Range<usize>) -> Self {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        match self {
            Self::Memory(octets) => Self::Memory(octets.slice(start..end)),
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
            Self::Memory(octets) => buffer.copy_from_slice(&octets[offset..offset + wanted]),
            Self::Elsewhere(Stretch { source, range }) => return source.read_at(range.start + offset, buffer),
            Self::Joined(parts, range) => {
                let mut at = range.start + offset;
                for part in parts.iter() {
                    if at < part.len() {
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

/// What of joined parts lies in a range, each cut to it.
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

/// See [`Octets::pieces`].
#[derive(Debug, Clone)]
pub struct Pieces {
    rest: Octets,
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
        self.rest = if piece.is_ok() { self.rest.slice(end..usize::MAX) } else { Octets::default() };
        Some(piece)
    }
}

/// See [`Octets::reader`].
#[derive(Debug, Clone)]
pub struct OctetReader {
    octets: Octets,
    at: usize,
}

impl io::Read for OctetReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.octets.read_at(self.at, buffer)?;
        self.at += read;
        Ok(read)
    }
}

impl Default for Octets {
    fn default() -> Self {
        Self::from(Bytes::new())
    }
}

impl From<Bytes> for Octets {
    fn from(octets: Bytes) -> Self {
        Self(Place::Memory(octets))
    }
}

impl From<Vec<u8>> for Octets {
    fn from(octets: Vec<u8>) -> Self {
        Self::from(Bytes::from(octets))
    }
}

impl From<String> for Octets {
    fn from(text: String) -> Self {
        Self::from(text.into_bytes())
    }
}

/// The length stands for the octets, which are nobody's business in a log.
impl fmt::Debug for Octets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Octets").field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    /// Octets that are read a few at a time.
    struct Slow(Vec<u8>);

    impl OctetSource for Slow {
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

    /// Octets that cannot be read, or of which some were lost.
    struct Broken(bool);

    impl OctetSource for Broken {
        fn len(&self) -> usize {
            10
        }

        fn read_at(&self, _: usize, _: &mut [u8]) -> io::Result<usize> {
            if self.0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(0) }
        }
    }

    fn slow(octets: &[u8]) -> Octets {
        Octets::elsewhere(Arc::new(Slow(octets.to_vec())))
    }

    #[test]
    fn unreadable_octets_are_one_error_and_never_a_short_read() {
        for lost in [true, false] {
            let octets = Octets::joined([Octets::from(vec![1, 2]), Octets::elsewhere(Arc::new(Broken(lost)))]);
            assert!(octets.to_bytes().is_err());
            let mut pieces = octets.pieces(2);
            assert_eq!(pieces.next().unwrap().unwrap(), [1, 2].as_slice());
            assert!(pieces.next().unwrap().is_err());
            assert!(pieces.next().is_none());
        }
    }

    #[test]
    fn a_log_shows_no_more_than_the_length() {
        assert_eq!(format!("{:?}", Octets::from(b"secret".to_vec())), "Octets { len: 6 }");
        assert_eq!(format!("{:?}", slow(b"secret").slice(1..4)), "Octets { len: 3 }");
    }

    proptest! {
        #[test]
        fn wherever_the_parts_lie_the_octets_are_the_same(
            parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..12), 0_u8..3), 0..8),
            (start, length, from, more) in (0_usize..60, 0_usize..60, 0_usize..60, 0_usize..60),
            max in 0_usize..9,
        ) {
            let whole: Vec<u8> = parts.iter().flat_map(|(octets, _)| octets.clone()).collect();
            let place = |(octets, kind): &(Vec<u8>, u8)| match kind {
                0 => Octets::from(octets.clone()),
                1 => slow(octets),
                _ => Octets::joined([slow(&octets[..octets.len() / 2]), slow(&octets[octets.len() / 2..])]),
            };
            let octets = Octets::joined(parts.iter().map(place));
            let cut = |range: Range<usize>, of: &[u8]| of[range.start.min(of.len())..range.end.min(of.len())].to_vec();
            let once = (octets.slice(start..start + length), cut(start..start + length, &whole));
            let twice = (once.0.slice(from..from + more), cut(from..from + more, &once.1));
            for (octets, expected) in [(octets, whole), once, twice] {
                prop_assert_eq!(octets.len(), expected.len());
                prop_assert_eq!(octets.is_empty(), expected.is_empty());
                prop_assert_eq!(&octets.to_bytes().unwrap()[..], &expected[..]);
                let pieces: Vec<Bytes> = octets.pieces(max).map(Result::unwrap).collect();
                prop_assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= max.max(1)));
                prop_assert_eq!(&pieces.concat(), &expected);
                let mut read = Vec::new();
                octets.reader().read_to_end(&mut read).unwrap();
                prop_assert_eq!(read, expected);
            }
        }
    }
}
