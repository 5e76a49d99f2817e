//! Accepts connections and serves requests.
//!
//! HTTP/1.1 only: almost no client uses HTTP/2 without TLS, and a proxy that terminates TLS speaks HTTP/2 itself. Each
//! connection therefore carries one request at a time, and one time-out covers it.

use std::convert::Infallible;
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
use hyper_util::server::graceful::GracefulShutdown;
use mailapi_model::{ClientNetwork, Connections, CountedConnection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::Service;

use crate::byte_budget::{ByteBudget, Share, byte_budget};
use crate::client_address::{Arrival, is_trusted};
use crate::closing::Closing;
use crate::head_room::{HEAD_ROOM, Head, HeadRoom, MAX_HEAD_BYTES};
use crate::parser_errors::ParserErrors;
use crate::settings::HttpSettings;
use crate::write_timeout::WriteTimeout;

/// How long a client may pause while it reads a response.
const ANSWER_PAUSE: Duration = Duration::from_secs(30);

/// Maximum number of connections of one client. Programs and browsers hold a handful; a network behind one address,
/// some dozens.
const CONNECTIONS_OF_CLIENT: usize = 1024;
/// Buffer of one connection for bodies and responses.
const CONNECTION_BUFFER: usize = 64 * 1024;

/// Serves `router` until `shutdown` is ready. Then it stops accepting, closes idle connections and event streams, and
/// gives requests in flight [`HttpSettings::shutdown_grace`] to finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    settings: &HttpSettings,
    shutdown: impl Future<Output = ()> + Send,
) {
    let server = Server::new(router, settings);
    let most = settings.max_connections.max(1);
    // One client leaves connections to others, also where the system allows few.
    let connections = Connections::new(most, CONNECTIONS_OF_CLIENT.min((most / 2).max(1)));
    let slots = Arc::new(Semaphore::new(most));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener, &slots) => {
                let (stream, peer, slot) = accepted;
                let is_proxy = is_trusted(peer.ip().to_canonical(), &settings.trusted_proxies);
                match connections.count((!is_proxy).then(|| ClientNetwork::of(peer.ip()))) {
                    Some(counted) => server.accept(stream, peer, (slot, counted)),
                    // Closed without a response, which would cost the resources that the limit saves.
                    None => tracing::debug!(%peer, "connection closed: too many connections from this client"),
                }
            }
        }
    }
    drop(listener);
    server.closing.send_replace(true);
    let finished = tokio::time::timeout(settings.shutdown_grace, server.graceful.shutdown()).await;
    if finished.is_err() {
        tracing::warn!("requests still in flight at the end of the shutdown grace period");
    }
}

/// Waits for a free slot, then for the next connection.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        // The semaphore is never closed, so waiting for it cannot fail.
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else { continue };
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, slot),
            Err(error) => {
                // Out of file descriptors until connections end, or the client has disconnected.
                const PAUSE: Duration = Duration::from_millis(50);
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

struct Server {
    router: Router,
    settings: HttpSettings,
    graceful: GracefulShutdown,
    /// True from the beginning of the shutdown, for responses that wait or never end.
    closing: watch::Sender<bool>,
    /// Room for unfinished heads.
    heads: Arc<ByteBudget>,
}

impl Server {
    fn new(router: Router, settings: &HttpSettings) -> Self {
        let (heads, closing) = (byte_budget(HEAD_ROOM), watch::Sender::new(false));
        Self { router, settings: settings.clone(), graceful: GracefulShutdown::new(), closing, heads }
    }

    fn accept(&self, stream: TcpStream, peer: SocketAddr, slot: (OwnedSemaphorePermit, CountedConnection)) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "setting TCP_NODELAY failed");
        }
        self.start(stream, peer, slot);
    }

    /// Serves a connection; `slot` is dropped when it ends.
    fn start<S, T>(&self, stream: S, peer: SocketAddr, slot: T)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: Send + 'static,
    {
        let head = Head::new(self.heads.hold(Share::Client(ClientNetwork::of(peer.ip()))));
        let stream = HeadRoom::new(WriteTimeout::new(stream, ANSWER_PAUSE), head.clone());
        let (router, closing) = (self.router.clone(), Closing::new(self.closing.subscribe()));
        let service = service_fn(move |request| {
            head.complete();
            let (answering, head) = (answer(router.clone(), peer, closing.clone(), request), head.clone());
            async move {
                let answer = answering.await;
                head.next();
                answer
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.settings.header_timeout)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(CONNECTION_BUFFER)
            .serve_connection(TokioIo::new(ParserErrors::new(stream)), service);
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            // A disconnect or a protocol error of the client is not a failure of the server.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended early");
            }
            drop(slot);
        });
    }
}

/// Calls the router without polling for readiness, because it is always ready.
fn answer(
    mut router: Router,
    peer: SocketAddr,
    closing: Closing,
    request: hyper::Request<Incoming>,
) -> impl Future<Output = Result<Response, Infallible>> {
    let is_ambiguous = !names_one_host(&request);
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(Arrival { peer: Some(peer), is_ambiguous, closing, ..Arrival::default() });
    router.call(request)
}

/// RFC 9112 section 3.2: a request without Host, or with two, is ambiguous for proxies. HTTP/1.0 requests need none.
fn names_one_host<B>(request: &hyper::Request<B>) -> bool {
    request.version() < Version::HTTP_11 || request.headers().get_all(header::HOST).iter().count() == 1
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
        server.start(theirs, client.into(), ());
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
