//! A new connection until its client is known.

use std::net::SocketAddr;
use std::time::Duration;

use mailapi_model::{ClientNetwork, CountedConnection};
use mailapi_proxy::{AnnounceError, announced_client};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// The last words to clients that get no session, in the protocol of the listener.
#[derive(Debug, Clone, Copy)]
pub struct ClosingWords {
    /// There are too many connections.
    pub busy: &'static [u8],
    /// A trusted proxy did not announce its client.
    pub not_announced: &'static [u8],
}

/// How a connection without a session ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Farewell {
    pub(super) words: ClosingWords,
    pub(super) timeout: Duration,
    /// A client that expects TLS could not read the words.
    pub(super) begins_with_tls: bool,
}

impl Farewell {
    /// Refuses a client above the limits.
    pub(super) async fn busy(self, stream: TcpStream, peer: SocketAddr) {
        tracing::warn!(%peer, "connection refused: connection limit reached");
        self.say(stream, self.words.busy).await;
    }

    async fn not_announced(self, stream: TcpStream, proxy: SocketAddr, error: &AnnounceError) {
        match error {
            // Load balancers check whether a port is open.
            AnnounceError::Ended(_) => tracing::debug!(%proxy, %error, "proxy disconnected"),
            _ => tracing::warn!(%proxy, %error, "connection of a trusted proxy refused"),
        }
        self.say(stream, self.words.not_announced).await;
    }

    async fn say(self, mut stream: TcpStream, words: &[u8]) {
        if !self.begins_with_tls {
            // The refusal is final whether or not its reason can be sent.
            let _ = tokio::time::timeout(self.timeout, stream.write_all(words)).await;
        }
    }
}

/// A new connection.
pub(super) struct Knock {
    pub(super) stream: TcpStream,
    /// Address of the other end.
    pub(super) peer: SocketAddr,
    /// The other end is a proxy, and announces the client in a PROXY header.
    pub(super) is_announced: bool,
}

/// A connection whose client is known, and counted among its connections.
pub(super) struct Introduced {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) counted: CountedConnection,
}

impl Knock {
    /// Returns the client, unless a proxy still has to announce it.
    pub(super) fn client(&self) -> Option<ClientNetwork> {
        (!self.is_announced).then(|| ClientNetwork::of(self.peer.ip()))
    }

    /// Reads the client's address if a proxy announces it, and counts the connection as that client's. Returns `None` if
    /// the connection was closed.
    pub(super) async fn introduce(self, counted: CountedConnection, farewell: Farewell) -> Option<Introduced> {
        let Self { mut stream, peer: proxy, is_announced } = self;
        if !is_announced {
            return Some(Introduced { stream, peer: proxy, counted });
        }
        let peer = match announced_client(&mut stream, proxy).await {
            Ok(peer) => peer,
            Err(error) => {
                farewell.not_announced(stream, proxy, &error).await;
                return None;
            }
        };
        match counted.of_client(ClientNetwork::of(peer.ip())) {
            Some(counted) => Some(Introduced { stream, peer, counted }),
            None => {
                farewell.busy(stream, peer).await;
                None
            }
        }
    }
}
