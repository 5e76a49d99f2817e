//! HTTPS: both versions of HTTP over real sockets, and the limits that both listeners share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mailapi_http::{ApiListeners, HttpSettings, serve};
use mailapi_tls::{CHALLENGE_PROTOCOL, ServerTls, Trust, client_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::App;

/// Longer than any response takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    app: App,
    plain: SocketAddr,
    encrypted: SocketAddr,
    tls: ServerTls,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

fn made() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["api.example".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

async fn run(change: impl FnOnce(&mut HttpSettings)) -> Running {
    let app = App::with(|_, http| change(http)).await;
    let (certificate, key) = made();
    let tls = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let bind = || TcpListener::bind("127.0.0.1:0");
    let listeners = ApiListeners {
        encrypted: bind().await.ok(),
        tls: Some(tls.clone()),
        ..ApiListeners::from(bind().await.unwrap())
    };
    let plain = listeners.plain.local_addr().unwrap();
    let encrypted = listeners.encrypted.as_ref().unwrap().local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (router, settings) = (app.router.clone(), app.settings.clone());
    let server = tokio::spawn(async move {
        serve(listeners, router, &settings, async move { stopped.await.unwrap_or_default() }).await;
    });
    Running { app, plain, encrypted, tls, stop, server }
}

async fn connect(address: SocketAddr, protocols: &[&[u8]]) -> std::io::Result<TlsStream<TcpStream>> {
    let mut config = client_config(&Trust::Anybody).unwrap();
    let offered = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::get_mut(&mut config).unwrap().alpn_protocols = offered;
    let stream = TcpStream::connect(address).await.unwrap();
    let handshake = TlsConnector::from(config).connect("api.example".try_into().unwrap(), stream);
    timeout(PATIENCE, handshake).await.expect("the end of a handshake")
}

fn request(running: &Running) -> Request<Empty<Bytes>> {
    let request = Request::get("https://api.example/api/v1/tokens/me").header("X-MAILAPI-TOKEN", &running.app.admin);
    request.body(Empty::new()).unwrap()
}

async fn http2_sender(address: SocketAddr) -> http2::SendRequest<Empty<Bytes>> {
    let stream = connect(address, &[b"h2", b"http/1.1"]).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn token_type<B: hyper::body::Body<Error: std::fmt::Debug>>(answer: Response<B>) -> String {
    assert_eq!(answer.status().as_u16(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice::<serde_json::Value>(&body).unwrap()["token_type"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_is_no_tls_is_closed_without_an_answer() {
    let running = run(|_| ()).await;
    let mut stream = TcpStream::connect(running.encrypted).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server hangs up");
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "{answer:?}");
    assert!(connect(running.encrypted, &[b"imap"]).await.is_err());
    assert!(connect(running.encrypted, &[CHALLENGE_PROTOCOL]).await.is_err(), "no check is open");
}

#[tokio::test]
async fn both_versions_of_http_are_answered() {
    let running = run(|_| ()).await;
    let mut second = http2_sender(running.encrypted).await;
    // Several requests at once over one connection.
    let (one, two) = (second.send_request(request(&running)), second.clone().send_request(request(&running)));
    let (one, two) = tokio::join!(one, two);
    assert_eq!(one.as_ref().unwrap().version(), Version::HTTP_2);
    assert_eq!(token_type(one.unwrap()).await, "admin");
    assert_eq!(token_type(two.unwrap()).await, "admin");
    let offers: [&[&[u8]]; 2] = [&[], &[b"http/1.1"]];
    for protocols in offers {
        let stream = connect(running.encrypted, protocols).await.unwrap();
        let (mut first, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = request(&running);
        request.headers_mut().insert("host", "api.example".parse().unwrap());
        let answer = first.send_request(request).await.unwrap();
        assert_eq!(answer.version(), Version::HTTP_11);
        assert_eq!(token_type(answer).await, "admin");
    }
}

#[tokio::test]
async fn browsers_stay_with_tls_that_this_server_ends() {
    const HEADER: &str = "strict-transport-security";
    let running = run(|_| ()).await;
    let mut sender = http2_sender(running.encrypted).await;
    let answer = sender.send_request(request(&running)).await.unwrap();
    assert_eq!(answer.headers()[HEADER], "max-age=31536000");
    let mut missing = request(&running);
    *missing.uri_mut() = "https://api.example/none".parse().unwrap();
    assert!(sender.send_request(missing).await.unwrap().headers().contains_key(HEADER), "errors have it too");
    // RFC 6797 section 7.2: not without TLS.
    let plain = reqwest::get(format!("http://{}/health/live", running.plain)).await.unwrap();
    assert!(!plain.headers().contains_key(HEADER));
}

#[tokio::test]
async fn a_request_of_http_2_names_one_host() {
    let running = run(|_| ()).await;
    let mut sender = http2_sender(running.encrypted).await;
    for (host, status) in [("api.example", 200), ("other.example", 400)] {
        let mut request = request(&running);
        request.headers_mut().insert("host", host.parse().unwrap());
        assert_eq!(sender.send_request(request).await.unwrap().status().as_u16(), status, "{host}");
    }
}

#[tokio::test]
async fn another_certificate_leaves_open_connections_alone() {
    let running = run(|_| ()).await;
    let seen = async || {
        let stream = connect(running.encrypted, &[]).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    };
    let (mut open, before) = (http2_sender(running.encrypted).await, seen().await);
    let (certificate, key) = made();
    running.tls.replace(certificate.as_bytes(), key.as_bytes()).unwrap();
    assert_ne!(seen().await, before);
    assert_eq!(token_type(open.send_request(request(&running)).await.unwrap()).await, "admin");
}

#[tokio::test]
async fn both_listeners_share_the_limits_of_a_client() {
    let running = run(|http| http.max_connections = 4).await;
    // A handshake that never ends counts as well.
    let _silent = TcpStream::connect(running.encrypted).await.unwrap();
    let _open = http2_sender(running.encrypted).await;
    let mut third = TcpStream::connect(running.plain).await.unwrap();
    assert_eq!(timeout(PATIENCE, third.read(&mut [0])).await.expect("closed").unwrap_or(0), 0);
}

#[tokio::test]
async fn requests_in_flight_are_finished_at_the_end() {
    let running = run(|_| ()).await;
    let mut sender = http2_sender(running.encrypted).await;
    let waiting = Request::get("https://api.example/api/v1/events?wait=30&after=now")
        .header("X-MAILAPI-TOKEN", &running.app.admin)
        .body(Empty::<Bytes>::new())
        .unwrap();
    let waiting = tokio::spawn(sender.send_request(waiting));
    // The answer shows that the earlier request arrived.
    assert_eq!(token_type(sender.send_request(request(&running)).await.unwrap()).await, "admin");
    running.stop.send(()).unwrap();
    let answer = timeout(PATIENCE, waiting).await.expect("an answer").unwrap().unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    timeout(PATIENCE, running.server).await.expect("the server ends").unwrap();
}
