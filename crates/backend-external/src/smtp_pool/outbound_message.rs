//! An outbound message that is transmitted in pieces, from memory or from a file.

use std::io;

use bytes::Bytes;
use mailapi_backend::read_bytes;
use mailapi_model::Blob;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Client, MessageFacts, Transaction};

/// Bytes read and sent at once.
const PIECE_BYTES: usize = 256 * 1024;

/// An outbound message, with the facts that the session needs before it is sent.
pub(super) struct OutboundMessage {
    bytes: Blob,
    facts: MessageFacts,
}

impl OutboundMessage {
    /// Scans a message, on a blocking thread unless it is in memory.
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

    /// Returns the piece at `offset`, and whether it is the last one.
    pub(super) async fn piece(&self, offset: usize) -> io::Result<(Bytes, bool)> {
        let piece = read_bytes(&self.bytes, offset..offset + PIECE_BYTES).await?;
        let is_last = offset + piece.len() == self.bytes.len();
        Ok((piece, is_last))
    }
}
