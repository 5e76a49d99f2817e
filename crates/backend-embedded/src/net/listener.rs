//! Accepts connections.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mailapi_model::{Connections, CountedConnection};
use mailapi_proxy::{AnnouncingProxies, listen};
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};

use super::knock::{ClosingWords, Farewell, Introduced, Knock};
use super::{ConnectionLimits, ServerTls, Shutdown, Stream, encrypt};

/// A bound port. Clients that connect before [`Listener::serve`] wait.
#[derive(Debug)]
pub struct Socket {
    socket: TcpListener,
    address: SocketAddr,
    /// The proxies that announce their clients here.
    proxies: AnnouncingProxies,
}

/// The sockets of one protocol, which share its limits.
#[derive(Debug)]
pub struct Listener {
    plain: Option<Socket>,
    encrypted: Option<Socket>,
}

/// An accepted client.
#[derive(Debug)]
pub struct Arrival {
    /// The connection, encrypted if it began with a handshake.
    pub stream: Stream,
    /// The client's address, also behind a proxy that announces it.
    pub peer: SocketAddr,
    /// The shutdown signal. After it the protocol has [`ConnectionLimits::grace`] to finish.
    pub shutdown: Shutdown,
}

impl Arrival {
    /// Returns whether the client is on this machine, so that the connection cannot be intercepted. A proxy elsewhere
    /// never announces a loopback address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.peer.ip().to_canonical().is_loopback()
    }
}

impl Socket {
    /// Binds a port; port 0 selects a free port.
    ///
    /// # Errors
    /// If the port is in use, or is not permitted.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = listen(address)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, proxies: AnnouncingProxies::default() })
    }

    /// Returns the bound address.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a client; forever without a socket. Cancel-safe.
    async fn accept(socket: Option<&Self>) -> io::Result<Knock> {
        let Some(bound) = socket else { return pending().await };
        let (stream, peer) = bound.socket.accept().await?;
        Ok(Knock { stream, peer, is_announced: bound.proxies.contain(peer.ip()) })
    }
}

/// What every client of a listener gets.
struct Reception<P> {
    connections: Connections,
    limits: ConnectionLimits,
    /// `None` also if no client begins with TLS.
    tls: Option<ServerTls>,
    shutdown: Shutdown,
    words: ClosingWords,
    protocol: Arc<P>,
}

impl Listener {
    /// Connections at `encrypted` begin with a TLS handshake (RFC 8314 section 3). Returns `None` without any socket.
    #[must_use]
    pub fn of(plain: Option<Socket>, encrypted: Option<Socket>) -> Option<Self> {
        (plain.is_some() || encrypted.is_some()).then_some(Self { plain, encrypted })
    }

    /// From now on, connections of these proxies begin with a PROXY header: without and with TLS from the beginning.
    pub fn announce(&mut self, plain: AnnouncingProxies, encrypted: AnnouncingProxies) {
        for (socket, proxies) in [(&mut self.plain, plain), (&mut self.encrypted, encrypted)] {
            if let Some(socket) = socket {
                socket.proxies = proxies;
            }
        }
    }

    /// Returns the bound addresses: without and with TLS from the beginning.
    #[must_use]
    pub fn addresses(&self) -> [Option<SocketAddr>; 2] {
        [&self.plain, &self.encrypted].map(|bound| bound.as_ref().map(Socket::local_addr))
    }

    /// Accepts clients until the shutdown signal, each in a task of `protocol`. Then waits for the tasks as
    /// long as the limits allow and aborts the rest. A client above the limits is sent its `words` and
    /// disconnected. Connections that begin with TLS need `tls`.
    pub async fn serve<P, F>(
        self,
        limits: ConnectionLimits,
        tls: Option<ServerTls>,
        mut shutdown: Shutdown,
        words: ClosingWords,
        protocol: P,
    ) where
        P: Fn(Arrival) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let connections = Connections::new(limits.max_connections, limits.max_connections_per_client);
        let reception =
            Reception { connections, limits, tls, shutdown: shutdown.clone(), words, protocol: Arc::new(protocol) };
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                () = shutdown.requested() => break,
                Some(ended) = tasks.join_next() => report(ended),
                accepted = Socket::accept(self.plain.as_ref()) => reception.receive(&mut tasks, accepted, false).await,
                accepted = Socket::accept(self.encrypted.as_ref()) => reception.receive(&mut tasks, accepted, true).await,
            }
        }
        let ports = self.addresses();
        // From now on the system refuses clients at once, and they can try another server.
        drop(self);
        let rest = async {
            while let Some(ended) = tasks.join_next().await {
                report(ended);
            }
        };
        let patience = reception.limits.grace + reception.limits.last_words;
        if tokio::time::timeout(patience, rest).await.is_err() {
            tracing::warn!(listeners = ?ports, connections = tasks.len(), "open connections closed at shutdown");
        }
    }
}

impl<P, F> Reception<P>
where
    P: Fn(Arrival) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    /// Starts the session of a client, or refuses it.
    async fn receive(&self, tasks: &mut JoinSet<()>, accepted: io::Result<Knock>, begins_with_tls: bool) {
        let knock = match accepted {
            Ok(knock) => knock,
            Err(error) => {
                tracing::warn!(%error, "connection could not be accepted");
                // Without a pause, a lack of file descriptors would make the loop spin.
                return tokio::time::sleep(self.limits.accept_pause).await;
            }
        };
        let (words, timeout) = (self.words, self.limits.refusal_timeout);
        let farewell = Farewell { words, timeout, begins_with_tls };
        // A client that a proxy announces is counted later; until then, the connection counts among all alone.
        match self.connections.count(knock.client()) {
            Some(counted) => self.admit(tasks, knock, counted, farewell),
            None => {
                tasks.spawn(farewell.busy(knock.stream, knock.peer));
            }
        }
    }

    fn admit(&self, tasks: &mut JoinSet<()>, knock: Knock, counted: CountedConnection, farewell: Farewell) {
        let (protocol, mut shutdown) = (Arc::clone(&self.protocol), self.shutdown.clone());
        let begins_with_tls = farewell.begins_with_tls;
        let tls = self.tls.clone().filter(|_| begins_with_tls);
        tasks.spawn(async move {
            let introduced = tokio::select! {
                biased;
                introduced = knock.introduce(counted, farewell) => introduced,
                () = shutdown.requested() => None,
            };
            let Some(Introduced { stream, peer, counted }) = introduced else { return };
            // An error means that the client has already disconnected.
            let Ok(mut stream) = Stream::plain(stream) else { return };
            if begins_with_tls && !shake_hands(tls.as_ref(), &mut stream, peer, &mut shutdown).await {
                return;
            }
            protocol(Arrival { stream, peer, shutdown }).await;
            drop(counted);
        });
    }
}

/// Encrypts a connection that begins with TLS. Returns whether its session can start.
async fn shake_hands(tls: Option<&ServerTls>, stream: &mut Stream, peer: SocketAddr, shutdown: &mut Shutdown) -> bool {
    let Some(tls) = tls else { return false };
    tokio::select! {
        biased;
        () = shutdown.requested() => false,
        encrypted = encrypt(tls, stream) => match encrypted {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%peer, %error, "TLS handshake failed");
                false
            }
        }
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "connection task failed");
    }
}
