//! An outbound message: sent from memory, or read in pieces from its buffer file.

use std::io;

use bytes::Bytes;
use mailapi_backend::read_octets;
use mailapi_model::Octets;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Client, MessageFacts, Transaction};

/// Size in octets of one read and write of a message.
const PIECE_OCTETS: usize = 256 * 1024;

/// A message with the facts that MAIL declares.
pub(super) struct OutboundMessage {
    octets: Octets,
    /// Set for a message that is not in memory.
    facts: Option<MessageFacts>,
}

impl OutboundMessage {
    /// Reads through a message that is not in memory, to compute its facts.
    pub(super) async fn of(octets: Octets) -> io::Result<Self> {
        if octets.in_memory().is_some() {
            return Ok(Self { octets, facts: None });
        }
        let reading = tokio::task::spawn_blocking(move || {
            let facts = MessageFacts::of_pieces(octets.pieces(PIECE_OCTETS))?;
            Ok(Self { octets, facts: Some(facts) })
        });
        reading.await.map_err(io::Error::other).flatten()
    }

    pub(super) fn begin<'a>(&'a self, client: &'a mut Client, envelope: &'a Envelope) -> Transaction<'a> {
        match (&self.facts, self.octets.in_memory()) {
            (None, Some(octets)) => client.transaction(envelope, octets),
            (facts, _) => client.transaction_in_pieces(envelope, facts.clone().unwrap_or_default()),
        }
    }

    /// Returns the piece that starts at `offset`, and whether it is the last one.
    pub(super) async fn piece(&self, offset: usize) -> io::Result<(Bytes, bool)> {
        let piece = read_octets(&self.octets, offset..offset + PIECE_OCTETS).await?;
        let is_last = offset + piece.len() == self.octets.len();
        Ok((piece, is_last))
    }

    /// Returns the first octets, at most `max`.
    pub(super) async fn beginning(&self, max: usize) -> io::Result<Bytes> {
        read_octets(&self.octets, 0..max).await
    }
}
