//! A message that is handed over: sent as it lies in memory, or read piece by piece from where else it lies.

use std::io;

use bytes::Bytes;
use mailapi_backend::read_octets;
use mailapi_model::Octets;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Client, MessageFacts, Transaction};

/// How much of a message is read and sent at once.
const PIECE_OCTETS: usize = 256 * 1024;

/// A message with what is said of it before it is sent.
pub(super) enum Letter {
    InMemory(Bytes),
    Elsewhere(Octets, MessageFacts),
}

impl Letter {
    /// Reads through a message that does not lie in memory.
    pub(super) async fn of(message: Octets) -> io::Result<Self> {
        if let Some(octets) = message.in_memory() {
            return Ok(Self::InMemory(octets.clone()));
        }
        let reading = tokio::task::spawn_blocking(move || {
            let mut facts = MessageFacts::new();
            for piece in message.pieces(PIECE_OCTETS) {
                facts.see(&piece?);
            }
            Ok(Self::Elsewhere(message, facts))
        });
        reading.await.map_err(io::Error::other).flatten()
    }

    pub(super) fn begin<'a>(&'a self, client: &'a mut Client, envelope: &'a Envelope) -> Transaction<'a> {
        match self {
            Self::InMemory(octets) => client.transaction(envelope, octets),
            Self::Elsewhere(_, facts) => client.transaction_in_pieces(envelope, facts.clone()),
        }
    }

    /// Octets of it.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::InMemory(octets) => octets.len(),
            Self::Elsewhere(octets, _) => octets.len(),
        }
    }

    /// The piece that begins at `offset`.
    pub(super) async fn piece(&self, offset: usize) -> io::Result<Bytes> {
        match self {
            Self::InMemory(octets) => Ok(octets.slice(offset..)),
            Self::Elsewhere(octets, _) => read_octets(octets, offset..offset + PIECE_OCTETS).await,
        }
    }
}
