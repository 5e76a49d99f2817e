//! The bytes of a received message: a short one in memory, a long one in a buffer file.

use std::borrow::Cow;
use std::io;

use mailapi_backend::{BufferError, read_bytes};
use mailapi_model::Blob;

use crate::coming::Coming;

/// A message whose header may still change.
#[derive(Debug)]
pub(crate) enum Body {
    /// The whole message, with spare capacity for header fields.
    Memory(Vec<u8>),
    /// A long message: the first bytes may be in memory, the rest is in a file.
    Buffered(Blob),
}

impl Body {
    /// Returns the complete message; `last` are its last bytes, or all of them.
    pub(crate) async fn complete(coming: &mut Coming, last: Vec<u8>) -> Result<Self, BufferError> {
        if coming.is_empty() { Ok(Self::Memory(last)) } else { coming.complete(last).await.map(Self::from) }
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Buffered(bytes) => bytes.len(),
        }
    }

    /// Returns the text that contains the header: all of a short message, the first `max` bytes of a long
    /// one.
    pub(crate) async fn beginning(&self, max: usize) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Memory(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Buffered(bytes) => Ok(Cow::Owned(read_bytes(bytes, 0..max).await?.into())),
        }
    }

    /// Replaces the first `length` bytes.
    pub(crate) fn replace_beginning(&mut self, length: usize, bytes: Vec<u8>) {
        match self {
            Self::Memory(message) => drop(message.splice(..length, bytes)),
            Self::Buffered(message) => {
                let rest = message.slice(length..message.len());
                *message = Blob::joined([bytes.into(), rest]);
            }
        }
    }
}

impl From<Blob> for Body {
    fn from(bytes: Blob) -> Self {
        // Avoids a copy if the bytes are not shared.
        bytes.into_bytes().map_or_else(Self::Buffered, |bytes| Self::Memory(bytes.into()))
    }
}

impl From<Body> for Blob {
    fn from(body: Body) -> Self {
        match body {
            Body::Memory(bytes) => bytes.into(),
            Body::Buffered(bytes) => bytes,
        }
    }
}
