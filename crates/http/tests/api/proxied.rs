//! Clients behind proxies that announce them by a PROXY header.

use std::net::SocketAddr;
use std::time::Duration;

use mailapi_http::{ApiListeners, HttpSettings, RequestLimits, serve};
use mailapi_proxy::{AnnouncingProxies, ProxiedListener, TrustedProxy};
use mailapi_tls::{ServerTls, Trust, client_config};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::support::App;

/// Longer than any response takes.
const PATIENCE: Duration = Duration::from_secs(60);
const PROXY: [u8; 4] = [127, 0, 0, 2];
const ANNOUNCED: &[u8] = b"PROXY TCP4 192.0.2.7 127.0.0.1 40000 443\r\n";
/// Version 2, of the client 192.0.2.8.
const OTHER: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x08\x7f\0\0\x01\x9c\x40\x01\xbb";

/// A server that allows two requests of an address, behind a proxy that announces clients at both listeners.
struct Running {
    _app: App,
    plain: SocketAddr,
    encrypted: SocketAddr,
}

async fn run() -> Running {
    let proxy: TrustedProxy = "127.0.0.2 http https".parse().unwrap();
    let change = |http: &mut HttpSettings| {
        http.limits = RequestLimits { per_minute: 2, per_hour: 0 };
        http.trusted_proxies = vec![proxy.network()];
    };
    let app = App::with(|_, http| change(http)).await;
    let made = rcgen::generate_simple_self_signed(["api.example".to_owned()]).unwrap();
    let tls = ServerTls::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes()).unwrap();
    let bind = || TcpListener::bind("127.0.0.1:0");
    let (plain, encrypted) = (bind().await.unwrap(), bind().await.unwrap());
    let addresses = [&plain, &encrypted].map(|listener| listener.local_addr().unwrap());
    let proxies = [ProxiedListener::Http, ProxiedListener::Https]
        .map(|at| AnnouncingProxies::at(at, std::slice::from_ref(&proxy)));
    let listeners = ApiListeners { plain, encrypted: Some(encrypted), tls: Some(tls), proxies };
    let (router, settings) = (app.router.clone(), app.settings.clone());
    tokio::spawn(async move { serve(listeners, router, &settings, std::future::pending()).await });
    Running { _app: app, plain: addresses[0], encrypted: addresses[1] }
}

/// Connects from this address and sends the beginning of the connection.
async fn connect(from: [u8; 4], to: SocketAddr, first: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    stream.write_all(first).await.unwrap();
    stream
}

/// Sends a request and returns the status; `None` if the server hangs up.
async fn status(mut stream: impl AsyncRead + AsyncWrite + Unpin, forwarded_for: &str) -> Option<String> {
    let request = format!(
        "GET /openapi.json HTTP/1.1\r\nHost: api.example\r\nX-Forwarded-For: {forwarded_for}\r\nConnection: close\r\n\r\n"
    );
    let _ = stream.write_all(request.as_bytes()).await;
    let mut start = [0; 12];
    let read = timeout(PATIENCE, stream.read_exact(&mut start)).await.expect("an answer in time");
    read.ok().map(|_| String::from_utf8_lossy(&start[9..]).into_owned())
}

async fn encrypted_status(stream: TcpStream, forwarded_for: &str) -> Option<String> {
    let tls = TlsConnector::from(client_config(&Trust::Anybody).unwrap());
    let stream = timeout(PATIENCE, tls.connect("api.example".try_into().unwrap(), stream)).await.expect("a handshake");
    status(stream.ok()?, forwarded_for).await
}

#[tokio::test]
async fn a_proxy_that_does_not_announce_its_client_is_refused() {
    let running = run().await;
    assert_eq!(status(connect(PROXY, running.plain, b"").await, "192.0.2.7").await, None);
    assert_eq!(encrypted_status(connect(PROXY, running.encrypted, b"").await, "192.0.2.7").await, None);
    assert_eq!(status(connect(PROXY, running.plain, b"PROXY TCP4 x\r\n").await, "192.0.2.7").await, None);
}

#[tokio::test]
async fn a_header_of_others_is_no_request() {
    let running = run().await;
    for first in [ANNOUNCED, OTHER] {
        let stream = connect([127, 0, 0, 1], running.plain, first).await;
        assert_eq!(status(stream, "192.0.2.7").await.as_deref(), Some("400"));
        let stream = connect([127, 0, 0, 1], running.encrypted, first).await;
        assert_eq!(encrypted_status(stream, "192.0.2.7").await, None);
    }
}

#[tokio::test]
async fn the_announced_client_is_limited_whatever_it_forges() {
    let running = run().await;
    let mut answers = Vec::new();
    for (first, forged) in [(ANNOUNCED, "192.0.2.1"), (ANNOUNCED, "192.0.2.2"), (ANNOUNCED, "192.0.2.3"), (OTHER, "")] {
        answers.push(status(connect(PROXY, running.plain, first).await, forged).await.unwrap());
    }
    assert_eq!(answers, ["200", "200", "429", "200"]);
    let mut answers = Vec::new();
    for (first, forged) in [(ANNOUNCED, "192.0.2.4"), (OTHER, "192.0.2.5"), (OTHER, "192.0.2.6")] {
        answers.push(encrypted_status(connect(PROXY, running.encrypted, first).await, forged).await.unwrap());
    }
    assert_eq!(answers, ["429", "200", "429"]);
}

#[tokio::test]
async fn others_connect_directly() {
    let running = run().await;
    let direct = async |forged| status(connect([127, 0, 0, 1], running.plain, b"").await, forged).await.unwrap();
    assert_eq!(
        [direct("192.0.2.1").await, direct("192.0.2.2").await, direct("192.0.2.3").await],
        ["200", "200", "429"]
    );
}
