//! From a listener to answered requests.
//!
//! HTTP/1.1 only: HTTP/2 without TLS is spoken by next to no client, and behind a proxy that ends TLS it is the
//! proxy's affair. So every connection has one way to dawdle, and a time-out for it.

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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::Service;

use crate::client_address::Arrival;
use crate::connections_of_client::{ConnectionsOfClients, Counted};
use crate::parser_errors::ParserErrors;
use crate::settings::HttpSettings;
use crate::write_timeout::WriteTimeout;

/// How long a client may stop reading an answer.
const ANSWER_PAUSE: Duration = Duration::from_secs(30);

/// Maximum length of a request's head. An unfinished head stays in memory until its time-out; 10,000 connections hold
/// 160 MiB of them at most.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How much of a body or an answer one connection buffers.
const CONNECTION_BUFFER: usize = 64 * 1024;

/// Serves `router` until `shutdown` is ready. Then no more connections are accepted, idle ones are closed, and
/// requests in flight have [`HttpSettings::shutdown_grace`] to finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    settings: &HttpSettings,
    shutdown: impl Future<Output = ()> + Send,
) {
    let server = Server { router, settings: settings.clone(), graceful: GracefulShutdown::new() };
    let clients = Arc::new(ConnectionsOfClients::default());
    let slots = Arc::new(Semaphore::new(settings.max_connections.max(1)));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener, &slots) => {
                let (stream, peer, slot) = accepted;
                match clients.count(peer.ip(), &settings.trusted_proxies) {
                    Some(counted) => server.start(stream, peer, (slot, counted)),
                    // Closed at once: an answer would cost the resources that the limit saves.
                    None => tracing::debug!(%peer, "the client has too many connections"),
                }
            }
        }
    }
    drop(listener);
    let finished = tokio::time::timeout(settings.shutdown_grace, server.graceful.shutdown()).await;
    if finished.is_err() {
        tracing::warn!("requests were still in flight at the end of the shutdown's grace");
    }
}

/// The next connection, as soon as there is a slot for it.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        // The semaphore is never closed, so waiting for it cannot fail.
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else { continue };
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, slot),
            Err(error) => {
                // Out of file handles, or the client was gone again. The first passes when connections end.
                const PAUSE: Duration = Duration::from_millis(50);
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

struct Server {
    router: Router,
    settings: HttpSettings,
    graceful: GracefulShutdown,
}

impl Server {
    fn start(&self, stream: TcpStream, peer: SocketAddr, slot: (OwnedSemaphorePermit, Counted)) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let router = self.router.clone();
        let service = service_fn(move |request| answer(router.clone(), peer, request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.settings.header_timeout)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(CONNECTION_BUFFER)
            .serve_connection(TokioIo::new(ParserErrors::new(WriteTimeout::new(stream, ANSWER_PAUSE))), service);
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            // A client that goes away or breaks the protocol is no failure of ours.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(slot);
        });
    }
}

/// Asks the router without waiting for it to be ready, which it always is.
fn answer(
    mut router: Router,
    peer: SocketAddr,
    request: hyper::Request<Incoming>,
) -> impl Future<Output = Result<Response, Infallible>> {
    let is_ambiguous = !names_one_host(&request);
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(Arrival { peer: Some(peer), is_ambiguous, ..Arrival::default() });
    router.call(request)
}

/// RFC 9112 section 3.2: a request without Host, or with two, is ambiguous for proxies. HTTP/1.0 requests need none.
fn names_one_host<B>(request: &hyper::Request<B>) -> bool {
    request.version() < Version::HTTP_11 || request.headers().get_all(header::HOST).iter().count() == 1
}
