//! The octets of a message that has come: a short one in memory, a long one in the spool.

use std::borrow::Cow;
use std::io;

use mailapi_backend::{BufferError, read_octets};
use mailapi_model::Octets;

use crate::coming::Coming;

/// A message whose header is still to be looked at, and changed.
#[derive(Debug)]
pub(crate) enum Body {
    /// All of it, with room in front of it for some fields.
    Memory(Vec<u8>),
    /// The first octets may lie in memory, the rest in a file.
    Buffered(Octets),
}

impl Body {
    /// The message whose last octets these are; all of it when none came before.
    pub(crate) async fn complete(coming: &mut Coming, last: Vec<u8>) -> Result<Self, BufferError> {
        if coming.is_empty() { Ok(Self::Memory(last)) } else { coming.complete(last).await.map(Self::from) }
    }

    /// Octets of it.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Memory(octets) => octets.len(),
            Self::Buffered(octets) => octets.len(),
        }
    }

    /// What the header lies in: all of a short one, the first `max` octets of a long one.
    pub(crate) async fn beginning(&self, max: usize) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Memory(octets) => Ok(Cow::Borrowed(octets)),
            Self::Buffered(octets) => Ok(Cow::Owned(read_octets(octets, 0..max).await?.into())),
        }
    }

    /// Puts `octets` in the place of the first `length` ones.
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
        // Without a copy when nobody else holds what lies in memory.
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
