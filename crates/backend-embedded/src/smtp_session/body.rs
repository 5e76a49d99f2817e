//! The octets of a received message: a short one in memory, a long one in a buffer file.

use std::borrow::Cow;
use std::io;

use mailapi_backend::{BufferError, read_octets};
use mailapi_model::Octets;

use crate::coming::Coming;

/// A message whose header may still change.
#[derive(Debug)]
pub(crate) enum Body {
    /// The whole message, with spare capacity for header fields.
    Memory(Vec<u8>),
    /// A long message: the first octets may be in memory, the rest is in a file.
    Buffered(Octets),
}

impl Body {
    /// Returns the complete message; `last` are its last octets, or all of them.
    pub(crate) async fn complete(coming: &mut Coming, last: Vec<u8>) -> Result<Self, BufferError> {
        if coming.is_empty() { Ok(Self::Memory(last)) } else { coming.complete(last).await.map(Self::from) }
    }

    /// Returns the length in octets.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Memory(octets) => octets.len(),
            Self::Buffered(octets) => octets.len(),
        }
    }

    /// Returns the text that contains the header: all of a short message, the first `max` octets of a long
    /// one.
    pub(crate) async fn beginning(&self, max: usize) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Memory(octets) => Ok(Cow::Borrowed(octets)),
            Self::Buffered(octets) => Ok(Cow::Owned(read_octets(octets, 0..max).await?.into())),
        }
    }

    /// Replaces the first `length` octets.
    pub(crate) fn replace_beginning(&mut self, length: usize, octets: Vec<u8>) {
        match self {
            Self::Memory(message) => drop(message.splice(..length, octets)),
            Self::Buffered(message) => {
                let rest = message.slice(length..message.len());
                *message = Octets::joined([octets.into(), rest]);
            }
        }
    }
}

impl From<Octets> for Body {
    fn from(octets: Octets) -> Self {
        // Avoids a copy if the bytes are not shared.
        octets.into_bytes().map_or_else(Self::Buffered, |octets| Self::Memory(octets.into()))
    }
}

impl From<Body> for Octets {
    fn from(body: Body) -> Self {
        match body {
            Body::Memory(octets) => octets.into(),
            Body::Buffered(octets) => octets,
        }
    }
}
