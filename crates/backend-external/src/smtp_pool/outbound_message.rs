//! An outbound message that is transmitted in pieces, from memory or from a file.

use std::io;

use bytes::Bytes;
use mailapi_backend::read_octets;
use mailapi_model::Octets;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Client, MessageFacts, Transaction};

/// Octets read and sent at once.
const PIECE_OCTETS: usize = 256 * 1024;

/// An outbound message, with the facts that the session needs before it is sent.
pub(super) struct OutboundMessage {
    octets: Octets,
    facts: MessageFacts,
}

impl OutboundMessage {
    /// Scans a message, on a blocking thread unless it is in memory.
    pub(super) async fn of(octets: Octets) -> io::Result<Self> {
        if let Some(facts) = octets.in_memory().map(|octets| MessageFacts::of(octets)) {
            return Ok(Self { octets, facts });
        }
        let reading = tokio::task::spawn_blocking(move || {
            let facts = MessageFacts::of_pieces(octets.pieces(PIECE_OCTETS))?;
            Ok(Self { octets, facts })
        });
        reading.await.map_err(io::Error::other).flatten()
    }

    pub(super) fn begin<'a>(&'a self, client: &'a mut Client, envelope: &'a Envelope) -> Transaction<'a> {
        client.transaction_in_pieces(envelope, self.facts.clone())
    }

    /// Returns the piece at `offset`, and whether it is the last one.
    pub(super) async fn piece(&self, offset: usize) -> io::Result<(Bytes, bool)> {
        let piece = read_octets(&self.octets, offset..offset + PIECE_OCTETS).await?;
        let is_last = offset + piece.len() == self.octets.len();
        Ok((piece, is_last))
    }
}
