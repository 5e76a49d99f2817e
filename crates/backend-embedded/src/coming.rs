//! A message being received by SMTP or IMAP. The protocol passes a long message on in pieces, and a short one
//! as a whole at its end.

use mailapi_backend::{Buffer, BufferError, BufferWriter};
use mailapi_model::Blob;

/// The pieces of a message received so far.
#[derive(Debug)]
pub(crate) struct Coming {
    buffer: Buffer,
    pieces: Option<BufferWriter>,
    /// A piece could not be stored, so the message cannot be completed.
    is_lost: bool,
}

impl Coming {
    pub(crate) const fn new(buffer: Buffer) -> Self {
        Self { buffer, pieces: None, is_lost: false }
    }

    /// Stores a piece. After a failure the whole message is lost, and further pieces are ignored.
    pub(crate) async fn keep(&mut self, piece: &[u8]) -> Result<(), BufferError> {
        // Marked as lost until the piece is stored: a cancelled write may have stored a part of it.
        if std::mem::replace(&mut self.is_lost, true) {
            return Ok(());
        }
        let mut pieces = self.pieces.take().unwrap_or_else(|| self.buffer.writer());
        pieces.push(piece).await?;
        self.pieces = Some(pieces);
        self.is_lost = false;
        Ok(())
    }

    /// Discards the message; the next piece starts a new one.
    pub(crate) fn forget(&mut self) {
        (self.pieces, self.is_lost) = (None, false);
    }

    /// Returns the number of bytes stored.
    pub(crate) fn len(&self) -> usize {
        self.pieces.as_ref().map_or(0, BufferWriter::len)
    }

    /// Returns whether no message has started.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && !self.is_lost
    }

    /// Returns the complete message; `last` are its last bytes.
    pub(crate) async fn complete(&mut self, last: Vec<u8>) -> Result<Blob, BufferError> {
        if self.is_lost {
            return Err(std::io::Error::other("an earlier part of the message could not be buffered").into());
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
