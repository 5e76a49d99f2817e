//! Accepts connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{ClientNetwork, Connections, CountedConnection};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};

use super::{ConnectionLimits, Shutdown, Stream};

/// A bound port. Clients that connect before [`Listener::serve`] wait.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// An accepted client.
#[derive(Debug)]
pub struct Arrival {
    /// The connection, not encrypted yet.
    pub stream: Stream,
    /// The client's address.
    pub peer: SocketAddr,
    /// The shutdown signal. After it the protocol has [`ConnectionLimits::grace`] to finish.
    pub shutdown: Shutdown,
}

impl Arrival {
    /// Returns whether the client is on this machine, so that the connection cannot be intercepted.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.peer.ip().to_canonical().is_loopback()
    }
}

impl Listener {
    /// Binds a port; port 0 selects a free port.
    ///
    /// # Errors
    /// If the port is in use, or is not permitted.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Returns the bound address.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts clients until the shutdown signal, each in a task of `protocol`. Then waits for the tasks as
    /// long as the limits allow and aborts the rest. A client above the limits is sent `busy` and
    /// disconnected.
    pub async fn serve<P, F>(self, limits: ConnectionLimits, mut shutdown: Shutdown, busy: &'static [u8], protocol: P)
    where
        P: Fn(Arrival) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let connections = Connections::new(limits.max_connections, limits.max_connections_per_client);
        let limits = Arc::new(limits);
        let mut tasks = JoinSet::new();
        let signal = shutdown.clone();
        loop {
            tokio::select! {
                () = shutdown.requested() => break,
                Some(ended) = tasks.join_next() => report(ended),
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, peer)) => match connections.count(Some(ClientNetwork::of(peer.ip()))) {
                        Some(counted) => admit(&mut tasks, stream, peer, counted, &signal, &protocol),
                        None => drop(tasks.spawn(refuse(stream, peer, busy, limits.refusal_timeout))),
                    },
                    Err(error) => {
                        tracing::warn!(%error, listener = %self.address, "connection could not be accepted");
                        // Without a pause, a lack of file descriptors would make this loop spin.
                        tokio::time::sleep(limits.accept_pause).await;
                    }
                },
            }
        }
        // From now on the system refuses clients at once, and they can try another server.
        drop(self.socket);
        let rest = async {
            while let Some(ended) = tasks.join_next().await {
                report(ended);
            }
        };
        let patience = limits.grace + limits.last_words;
        if tokio::time::timeout(patience, rest).await.is_err() {
            tracing::warn!(listener = %self.address, connections = tasks.len(), "open connections closed at shutdown");
        }
    }
}

fn admit<P, F>(
    tasks: &mut JoinSet<()>,
    stream: TcpStream,
    peer: SocketAddr,
    counted: CountedConnection,
    shutdown: &Shutdown,
    protocol: &P,
) where
    P: Fn(Arrival) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    // An error means that the client has already disconnected.
    let Ok(stream) = Stream::plain(stream) else { return };
    let session = protocol(Arrival { stream, peer, shutdown: shutdown.clone() });
    tasks.spawn(async move {
        session.await;
        drop(counted);
    });
}

async fn refuse(mut stream: TcpStream, peer: SocketAddr, busy: &'static [u8], timeout: Duration) {
    tracing::warn!(%peer, "connection refused: connection limit reached");
    // The refusal is final whether or not its reason can be sent.
    let _ = tokio::time::timeout(timeout, stream.write_all(busy)).await;
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "connection task failed");
    }
}
