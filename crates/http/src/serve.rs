//! Accepts connections and serves requests.
//!
//! Without TLS there is HTTP/1.1 only: almost no client uses HTTP/2 then, and a proxy that terminates TLS speaks HTTP/2
//! itself. Over TLS the client chooses. An HTTP/1.1 connection carries one request at a time, and one time-out covers it;
//! [`http2`](crate::http2) has the limits of the others.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Version, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mailapi_model::{ClientNetwork, Connections, CountedConnection};
use mailapi_proxy::{AnnounceError, AnnouncingProxies, announced_client};
use mailapi_tls::{CHALLENGE_PROTOCOL, ServerTls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tower::Service;

use crate::byte_budget::{ByteBudget, Share, byte_budget};
use crate::client_address::{Arrival, network_of};
use crate::closing::Closing;
use crate::head_room::{HEAD_ROOM, Head, HeadRoom, MAX_HEAD_BYTES};
use crate::http2::{self, RequestRoom};
use crate::parser_errors::ParserErrors;
use crate::settings::HttpSettings;
use crate::write_timeout::WriteTimeout;

/// How long a client may pause while it reads a response.
const ANSWER_PAUSE: Duration = Duration::from_secs(30);

/// Maximum number of connections of one client. Programs and browsers hold a handful; a network behind one address,
/// some dozens.
const CONNECTIONS_OF_CLIENT: usize = 1024;
/// Maximum number of connections of HTTP/2: stalled streams of one can take 256 KiB. Further clients are offered HTTP/1.1
/// alone.
const MULTIPLEXED: usize = 256;
/// Of these, of one client. A browser has one connection to a server.
const MULTIPLEXED_OF_CLIENT: usize = 64;
/// Buffer of one connection for bodies and responses. The connection keeps it until its end, also while it is idle.
const CONNECTION_BUFFER: usize = 16 * 1024;
/// Time limit for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The sockets of the API, which share its limits.
#[derive(Debug)]
pub struct ApiListeners {
    /// HTTP without TLS.
    pub plain: TcpListener,
    /// HTTPS.
    pub encrypted: Option<TcpListener>,
    /// The certificate of HTTPS.
    pub tls: Option<ServerTls>,
    /// The proxies that announce their clients by a PROXY header: without and with TLS.
    pub proxies: [AnnouncingProxies; 2],
}

impl From<TcpListener> for ApiListeners {
    /// HTTP without TLS alone.
    fn from(plain: TcpListener) -> Self {
        Self { plain, encrypted: None, tls: None, proxies: Default::default() }
    }
}

/// Serves `router` until `shutdown` is ready. Then it stops accepting, closes idle connections and event streams, and
/// gives requests in flight [`HttpSettings::shutdown_grace`] to finish.
pub async fn serve(
    listeners: impl Into<ApiListeners>,
    router: Router,
    settings: &HttpSettings,
    shutdown: impl Future<Output = ()> + Send,
) {
    let listeners = listeners.into();
    let server = Arc::new(Server::new(router, settings));
    let connections = shared_by_clients(settings);
    let slots = Arc::new(Semaphore::new(settings.max_connections.max(1)));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listeners, &slots) => {
                // Behind a proxy the client is still unknown; until then, the connection counts among all alone.
                let client = if accepted.is_announced { None } else { server.client(accepted.peer) };
                match connections.count(client) {
                    Some(counted) => Arc::clone(&server).receive(accepted, counted),
                    None => too_many(accepted.peer),
                }
            }
        }
    }
    drop(listeners);
    server.closing.send_replace(true);
    // Each connection has a receiver of the signal until it ends.
    let finished = tokio::time::timeout(settings.shutdown_grace, server.closing.closed()).await;
    if finished.is_err() {
        tracing::warn!("requests still in flight at the end of the shutdown grace period");
    }
}

/// Limits connections, or requests that share connections. One client leaves some to others, also where the system
/// allows few.
fn shared_by_clients(settings: &HttpSettings) -> Connections {
    let most = settings.max_connections.max(1);
    Connections::new(most, CONNECTIONS_OF_CLIENT.min((most / 2).max(1)))
}

/// Closes a connection without a response, which would cost the resources that the limit saves.
fn too_many(peer: SocketAddr) {
    tracing::debug!(%peer, "connection closed: too many connections from this client");
}

/// A new connection.
struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    slot: OwnedSemaphorePermit,
    /// The peer is a proxy, and announces the client in a PROXY header.
    is_announced: bool,
    /// The certificate, if the connection begins with a handshake.
    tls: Option<ServerTls>,
}

/// Waits for a free slot, then for the next connection.
async fn accept(listeners: &ApiListeners, slots: &Arc<Semaphore>) -> Accepted {
    loop {
        // The semaphore is never closed, so waiting for it cannot fail.
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else { continue };
        let [plain, encrypted] = &listeners.proxies;
        let (accepted, tls, proxies) = tokio::select! {
            accepted = listeners.plain.accept() => (accepted, None, plain),
            accepted = accept_encrypted(listeners) => (accepted, listeners.tls.clone(), encrypted),
        };
        match accepted {
            Ok((stream, peer)) => {
                return Accepted { stream, peer, slot, is_announced: proxies.contain(peer.ip()), tls };
            }
            Err(error) => {
                // Out of file descriptors until connections end, or the client has disconnected.
                const PAUSE: Duration = Duration::from_millis(50);
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Waits for the next connection of HTTPS; forever without its listener or certificate.
async fn accept_encrypted(listeners: &ApiListeners) -> io::Result<(TcpStream, SocketAddr)> {
    match (&listeners.encrypted, &listeners.tls) {
        (Some(listener), Some(_)) => listener.accept().await,
        _ => pending().await,
    }
}

struct Server {
    router: Router,
    settings: HttpSettings,
    /// True from the beginning of the shutdown: connections close when they are idle, and responses that wait or never
    /// end finish. Every connection has a receiver.
    closing: watch::Sender<bool>,
    /// Room for unfinished heads, and for those of requests of HTTP/2.
    heads: Arc<ByteBudget>,
    /// Connections of HTTP/2.
    multiplexed: Connections,
    /// Requests of HTTP/2 in flight.
    requests: Connections,
}

impl Server {
    fn new(router: Router, settings: &HttpSettings) -> Self {
        let (heads, closing) = (byte_budget(HEAD_ROOM), watch::Sender::new(false));
        let (multiplexed, requests) =
            (Connections::new(MULTIPLEXED, MULTIPLEXED_OF_CLIENT), shared_by_clients(settings));
        Self { router, settings: settings.clone(), closing, heads, multiplexed, requests }
    }

    /// The client of a connection; `None` for a trusted proxy.
    fn client(&self, peer: SocketAddr) -> Option<ClientNetwork> {
        network_of(peer, &self.settings.trusted_proxies)
    }

    /// Serves a new connection.
    fn receive(self: Arc<Self>, accepted: Accepted, counted: CountedConnection) {
        if let Err(error) = accepted.stream.set_nodelay(true) {
            tracing::debug!(%error, "setting TCP_NODELAY failed");
        }
        if accepted.tls.is_none() && !accepted.is_announced {
            let from = (accepted.peer, IsEncrypted(false));
            return self.start(accepted.stream, from, (accepted.slot, counted));
        }
        let mut closing = Closing::new(self.closing.subscribe());
        tokio::spawn(async move {
            tokio::select! {
                () = closing.begun() => {}
                () = self.prepare(accepted, counted) => {}
            }
        });
    }

    /// Reads what comes before the first request, and serves the connection.
    async fn prepare(&self, mut accepted: Accepted, counted: CountedConnection) {
        let Some((peer, counted)) = self.introduce(&mut accepted, counted).await else { return };
        let Accepted { stream, slot, tls, .. } = accepted;
        let Some(tls) = tls else { return self.start(stream, (peer, IsEncrypted(false)), (slot, counted)) };
        let multiplexed = self.multiplexed.count(self.client(peer));
        let offered = if multiplexed.is_some() { tls.https() } else { tls.https_1() };
        match shake_hands(offered, stream).await {
            Ok(stream) => self.start_encrypted(stream, peer, (slot, counted), multiplexed),
            Err(error) => tracing::debug!(%peer, %error, "TLS handshake failed"),
        }
    }

    /// Returns the client of a connection, also if a proxy announces it, counted among the connections of this client.
    async fn introduce(
        &self,
        accepted: &mut Accepted,
        counted: CountedConnection,
    ) -> Option<(SocketAddr, CountedConnection)> {
        let proxy = accepted.peer;
        if !accepted.is_announced {
            return Some((proxy, counted));
        }
        let peer = announced_client(&mut accepted.stream, proxy).await.inspect_err(|error| match error {
            // Load balancers check whether a port is open.
            AnnounceError::Ended(_) => tracing::debug!(%proxy, %error, "proxy disconnected"),
            _ => tracing::warn!(%proxy, %error, "connection of a trusted proxy refused"),
        });
        let peer = peer.ok()?;
        let counted = match self.client(peer) {
            Some(client) => counted.of_client(client),
            None => Some(counted),
        };
        if counted.is_none() {
            too_many(peer);
        }
        Some((peer, counted?))
    }

    /// Serves a connection by the protocol that its client chose; `slot` is dropped when it ends, as is `multiplexed` with
    /// HTTP/2.
    fn start_encrypted<T: Send + 'static>(
        &self,
        stream: TlsStream<TcpStream>,
        peer: SocketAddr,
        slot: T,
        multiplexed: Option<CountedConnection>,
    ) {
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => self.start_http2(stream, peer, (slot, multiplexed)),
            // The handshake itself was the answer, and no data follows (RFC 8737 section 3).
            Some(CHALLENGE_PROTOCOL) => {}
            _ => self.start(stream, (peer, IsEncrypted(true)), slot),
        }
    }

    /// Serves a connection of HTTP/2; `slot` is dropped when it ends.
    fn start_http2<S, T>(&self, stream: S, peer: SocketAddr, slot: T)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: Send + 'static,
    {
        let stream = WriteTimeout::new(stream, ANSWER_PAUSE);
        let (router, closing) = (self.router.clone(), Closing::new(self.closing.subscribe()));
        let handle = {
            let closing = closing.clone();
            move |request| answer(router.clone(), (peer, IsEncrypted(true)), closing.clone(), request)
        };
        let (requests, heads) = (self.requests.clone(), Arc::clone(&self.heads));
        let room = RequestRoom { requests, client: self.client(peer), heads };
        let connection = http2::serve(stream, room, handle, closing, self.settings.header_timeout);
        tokio::spawn(async move {
            connection.await;
            drop(slot);
        });
    }

    /// Serves a connection; `slot` is dropped when it ends.
    fn start<S, T>(&self, stream: S, from: (SocketAddr, IsEncrypted), slot: T)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: Send + 'static,
    {
        let head = Head::new(self.heads.hold(Share::Client(ClientNetwork::of(from.0.ip()))));
        let stream = HeadRoom::new(WriteTimeout::new(stream, ANSWER_PAUSE), head.clone());
        let (router, closing) = (self.router.clone(), Closing::new(self.closing.subscribe()));
        let service = service_fn(move |request| {
            head.complete();
            let (answering, head) = (answer(router.clone(), from, closing.clone(), request), head.clone());
            async move {
                let answer = answering.await;
                head.next();
                answer
            }
        });
        let mut shutdown = Closing::new(self.closing.subscribe());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.settings.header_timeout)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(CONNECTION_BUFFER)
            .serve_connection(TokioIo::new(ParserErrors::new(stream)), service);
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = shutdown.begun() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            // A disconnect or a protocol error of the client is not a failure of the server.
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended early");
            }
            drop((slot, shutdown));
        });
    }
}

async fn shake_hands(tls: Arc<ServerConfig>, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let handshake = TlsAcceptor::from(tls).accept(stream);
    tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await?
}

/// Whether this server's TLS protects a connection.
#[derive(Clone, Copy)]
struct IsEncrypted(bool);

/// Calls the router without polling for readiness, because it is always ready.
fn answer(
    mut router: Router,
    (peer, IsEncrypted(is_encrypted)): (SocketAddr, IsEncrypted),
    closing: Closing,
    request: hyper::Request<Incoming>,
) -> impl Future<Output = Result<Response, Infallible>> {
    let is_ambiguous = !names_one_host(&request);
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(Arrival {
        peer: Some(peer),
        is_ambiguous,
        is_encrypted,
        closing,
        ..Arrival::default()
    });
    router.call(request)
}

/// RFC 9112 section 3.2: a request without Host, or with two, is ambiguous for proxies. HTTP/1.0 requests need none. In
/// HTTP/2 `:authority` replaces Host, and both must agree (RFC 9113 section 8.3.1).
fn names_one_host<B>(request: &hyper::Request<B>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    match (request.version(), request.uri().authority()) {
        (Version::HTTP_2, Some(authority)) => first.is_none_or(|host| host == authority.as_str()) && second.is_none(),
        (Version::HTTP_09 | Version::HTTP_10, _) => true,
        _ => first.is_some() && second.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use bytes::Bytes;
    use futures_util::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;
    use crate::byte_budget::BytePermit;

    const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 1], 1000);
    const OTHER: ([u8; 4], u16) = ([192, 0, 2, 2], 1000);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    const LARGE: usize = 10 * 1024 * 1024;

    fn connect(server: &Server, client: ([u8; 4], u16)) -> DuplexStream {
        let (ours, theirs) = duplex(MAX_HEAD_BYTES);
        server.start(theirs, (client.into(), IsEncrypted(false)), ());
        ours
    }

    async fn status(stream: &mut DuplexStream) -> String {
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        String::from_utf8_lossy(&start[9..]).into_owned()
    }

    /// An answer without end that holds some of a room.
    fn large(mut held: BytePermit) -> Body {
        held.grow(LARGE).unwrap();
        Body::from_stream(stream::repeat_with(move || {
            let _held = &held;
            Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 1024]))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn unread_answers_give_their_memory_back() {
        let room = byte_budget(10 * LARGE);
        let of_router = Arc::clone(&room);
        let router = Router::new().route("/", get(async move || large(of_router.hold(Share::NoCaller))));
        let server = Server::new(router, &HttpSettings::default());
        let mut clients = Vec::new();
        for _ in 0..5 {
            let mut client = connect(&server, CLIENT);
            client.write_all(REQUEST).await.unwrap();
            assert_eq!(status(&mut client).await, "200");
            clients.push(client);
        }
        assert_eq!(room.bytes_taken(), 5 * LARGE);
        // The clock of the test moves on by itself while nothing else happens.
        tokio::time::sleep(ANSWER_PAUSE + Duration::from_secs(1)).await;
        assert_eq!(room.bytes_taken(), 0);
        for mut client in clients {
            client.read_to_end(&mut Vec::new()).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_heads_share_a_room() {
        let router = Router::new().route("/", get(async || "hello"));
        let settings = HttpSettings { header_timeout: Duration::from_secs(3600), ..HttpSettings::default() };
        let server = Server::new(router, &settings);
        let unfinished = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "y".repeat(12_000));
        let mut held = Vec::new();
        for _ in 0..1200 {
            let mut client = connect(&server, CLIENT);
            client.write_all(unfinished.as_bytes()).await.unwrap();
            held.push(client);
        }
        let mut closed = 0;
        for client in &mut held {
            closed += usize::from(timeout(Duration::from_secs(1), client.read_u8()).await.is_ok());
        }
        assert!((100..600).contains(&closed), "{closed} of 1200");
        assert!(server.heads.bytes_taken() <= HEAD_ROOM / 2);
        // Of the same client a usual head, of others a long one is answered, request after request.
        let long = format!("{unfinished}\r\n\r\n");
        let (mut same, mut other) = (connect(&server, CLIENT), connect(&server, OTHER));
        for _ in 0..3 {
            for (client, request) in [(&mut same, REQUEST), (&mut other, long.as_bytes())] {
                client.write_all(request).await.unwrap();
                let mut answer = vec![0; 5];
                while !answer.ends_with(b"hello") {
                    answer.push(client.read_u8().await.unwrap());
                }
                assert!(answer[5..].starts_with(b"HTTP/1.1 200 "));
            }
        }
        drop((held, same, other));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(server.heads.bytes_taken(), 0);
    }
}
