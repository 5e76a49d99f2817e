//! An outbound message, read in pieces while it is sent.

use std::io;

use bytes::Bytes;
use mailapi_model::Blob;
use mailapi_smtp::client::MessageFacts;

/// Bytes read and sent at once.
const PIECE_BYTES: usize = 256 * 1024;

/// An outbound message, with the facts that MAIL declares.
pub struct OutboundMessage {
    content: Blob,
    facts: MessageFacts,
}

impl OutboundMessage {
    /// Reads through the message to compute its facts, on a blocking thread unless it is in memory.
    ///
    /// # Errors
    /// If the message cannot be read.
    pub async fn of(content: Blob) -> io::Result<Self> {
        if let Some(facts) = content.in_memory().map(|bytes| MessageFacts::of(bytes)) {
            return Ok(Self { content, facts });
        }
        let reading = tokio::task::spawn_blocking(move || {
            let facts = MessageFacts::of_pieces(content.pieces(PIECE_BYTES))?;
            Ok(Self { content, facts })
        });
        reading.await.map_err(io::Error::other).flatten()
    }

    /// Returns the message as it was passed to [`OutboundMessage::of`].
    #[must_use]
    pub const fn content(&self) -> &Blob {
        &self.content
    }

    /// Returns the facts that MAIL declares.
    #[must_use]
    pub fn facts(&self) -> MessageFacts {
        self.facts.clone()
    }

    /// Returns the piece that starts at `offset`, and whether it is the last one.
    pub(crate) async fn piece(&self, offset: usize) -> io::Result<(Bytes, bool)> {
        let piece = match self.content.slice(offset..offset + PIECE_BYTES).into_bytes() {
            Ok(piece) => piece,
            Err(elsewhere) => {
                let reading = tokio::task::spawn_blocking(move || elsewhere.to_bytes());
                reading.await.map_err(io::Error::other).flatten()?
            }
        };
        let is_last = offset + piece.len() == self.content.len();
        Ok((piece, is_last))
    }
}
