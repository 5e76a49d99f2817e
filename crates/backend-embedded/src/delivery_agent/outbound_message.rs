//! An outbound message: sent from memory, or read in pieces from its buffer file.

use std::io;

use bytes::Bytes;
use mailapi_backend::read_bytes;
use mailapi_model::Blob;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Client, MessageFacts, Transaction};

/// Size in bytes of one read and write of a message.
const PIECE_BYTES: usize = 256 * 1024;

/// A message with the facts that MAIL declares.
pub(super) struct OutboundMessage {
    bytes: Blob,
    facts: MessageFacts,
}

impl OutboundMessage {
    /// Reads through a message that is not in memory, to compute its facts.
    pub(super) async fn of(bytes: Blob) -> io::Result<Self> {
        if let Some(facts) = bytes.in_memory().map(|bytes| MessageFacts::of(bytes)) {
            return Ok(Self { bytes, facts });
        }
        let reading = tokio::task::spawn_blocking(move || {
            let facts = MessageFacts::of_pieces(bytes.pieces(PIECE_BYTES))?;
            Ok(Self { bytes, facts })
        });
        reading.await.map_err(io::Error::other).flatten()
    }

    pub(super) fn begin<'a>(&'a self, client: &'a mut Client, envelope: &'a Envelope) -> Transaction<'a> {
        client.transaction(envelope, self.facts.clone())
    }

    /// Returns the piece that starts at `offset`, and whether it is the last one.
    pub(super) async fn piece(&self, offset: usize) -> io::Result<(Bytes, bool)> {
        let piece = read_bytes(&self.bytes, offset..offset + PIECE_BYTES).await?;
        let is_last = offset + piece.len() == self.bytes.len();
        Ok((piece, is_last))
    }

    /// Returns the first bytes, at most `max`.
    pub(super) async fn beginning(&self, max: usize) -> io::Result<Bytes> {
        read_bytes(&self.bytes, 0..max).await
    }
}
