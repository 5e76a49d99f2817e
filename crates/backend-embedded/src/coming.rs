//! A message that is coming, by SMTP or IMAP. Its protocol hands out the pieces of a long one as they come, and nothing of
//! a short one before its end.

use mailapi_backend::{Buffer, BufferError, BufferWriter};
use mailapi_model::Octets;

/// What has come of a message.
#[derive(Debug)]
pub(crate) struct Coming {
    buffer: Buffer,
    pieces: Option<BufferWriter>,
    /// A piece could not be kept; there will be no message.
    is_lost: bool,
}

impl Coming {
    pub(crate) const fn new(buffer: Buffer) -> Self {
        Self { buffer, pieces: None, is_lost: false }
    }

    /// Keeps a piece; when it cannot be kept, nothing is, neither of this message nor of the rest of it.
    pub(crate) async fn keep(&mut self, piece: &[u8]) -> Result<(), BufferError> {
        // Until it is kept; nobody may come back to this.
        if std::mem::replace(&mut self.is_lost, true) {
            return Ok(());
        }
        let mut pieces = self.pieces.take().unwrap_or_else(|| self.buffer.writer());
        pieces.push(piece).await?;
        self.pieces = Some(pieces);
        self.is_lost = false;
        Ok(())
    }

    /// There will be no message; what is kept from now on is of another one.
    pub(crate) fn forget(&mut self) {
        (self.pieces, self.is_lost) = (None, false);
    }

    /// How many octets are kept.
    pub(crate) fn len(&self) -> usize {
        self.pieces.as_ref().map_or(0, BufferWriter::len)
    }

    /// Whether nothing has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && !self.is_lost
    }

    /// The message, whose last octets these are.
    pub(crate) async fn complete(&mut self, last: Vec<u8>) -> Result<Octets, BufferError> {
        if self.is_lost {
            return Err(std::io::Error::other("a piece of it could not be kept").into());
        }
        let Some(mut pieces) = self.pieces.take() else { return Ok(last.into()) };
        pieces.push(&last).await?;
        pieces.finish()
    }
}

#[cfg(test)]
mod tests {
    use mailapi_backend::BufferSettings;

    use super::*;

    #[tokio::test]
    async fn a_message_with_a_hole_is_dropped_and_the_next_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let settings = BufferSettings {
            max_memory_bytes: 10,
            write_bytes: 4,
            max_disk_bytes: 40,
            ..BufferSettings::new(directory.path())
        };
        let buffer = Buffer::new(settings);
        let mut coming = Coming::new(buffer.clone());
        coming.keep(&[1; 30]).await.unwrap();
        assert!(coming.keep(&[1; 30]).await.is_err());
        coming.keep(&[1; 30]).await.unwrap();
        assert_eq!((coming.len(), buffer.taken(), coming.is_empty()), (0, 0, false));
        assert!(coming.complete(vec![1]).await.is_err());
        coming.forget();
        coming.keep(&[2; 30]).await.unwrap();
        assert_eq!(coming.complete(vec![2]).await.unwrap().to_bytes().unwrap(), [2; 31][..]);
    }
}
