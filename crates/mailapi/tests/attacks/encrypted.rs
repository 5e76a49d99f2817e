//! Attacks at the listeners with TLS: handshakes that never end, and HTTP/2.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mailapi_tls::{Trust, client_config};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::embedded_host::{ATTACKER, EmbeddedHost, answered_during, connect_from, of_network, size};

const ENCRYPTED: [&str; 3] = ["https", "submissions", "imaps"];

/// A server with a certificate and every listener.
async fn open() -> (EmbeddedHost, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["mx.example.org".to_owned()]).unwrap();
    let (cert, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let host = EmbeddedHost::open(&[
        ("MAILAPI_TLS__CERT", cert.to_str().unwrap()),
        ("MAILAPI_TLS__KEY", key.to_str().unwrap()),
        ("MAILAPI_HTTP__TLS_LISTEN", "127.0.0.1:0"),
        ("MAILAPI_MAIL__EMBEDDED__SUBMISSIONS_LISTEN", "127.0.0.1:0"),
        ("MAILAPI_MAIL__EMBEDDED__IMAPS_LISTEN", "127.0.0.1:0"),
    ])
    .await;
    (host, directory)
}

/// A connection of HTTP/2 with the smallest window, so that little of each response arrives unread; `None` if the server does
/// not offer HTTP/2 any more.
async fn http2(host: &EmbeddedHost, client: Ipv4Addr) -> Option<SendRequest<Empty<Bytes>>> {
    let mut config = client_config(&Trust::Anybody).unwrap();
    Arc::get_mut(&mut config).unwrap().alpn_protocols = vec![b"h2".to_vec()];
    let stream = connect_from(client, host.listener("https")).await;
    let stream = TlsConnector::from(config).connect("mx.example.org".try_into().unwrap(), stream).await.ok()?;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(1);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    Some(sender)
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("https://mx.example.org{path}")).body(Empty::new()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn handshakes_that_never_end_stop_no_others() {
    let (host, _certificate) = open().await;
    let mut silent = Vec::new();
    for listener in ENCRYPTED {
        for number in 0..size(1010, 150) {
            let mut stream = host.attacker(listener).await;
            // The beginning of a long first message.
            if number % 2 == 0 {
                let _ = stream.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3]).await;
            }
            silent.push(stream);
        }
        host.listeners_answer(listener).await;
    }
    drop(silent);
    host.stands("handshakes that never end").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn unread_responses_of_http_2_stop_no_others() {
    let (host, _certificate) = open().await;
    let (mut held, mut connections) = (Vec::new(), 0);
    let attack = async {
        // As many as one client may have, and then a network.
        for number in 0..size(1000, 80) {
            let client = if number % 2 == 0 { ATTACKER } else { of_network(number, 50) };
            let Some(mut sender) = http2(&host, client).await else { continue };
            connections += 1;
            for _ in 0..64 {
                // A response begins, and nothing of it is read.
                let answer = timeout(Duration::from_secs(10), sender.send_request(get("/openapi.json"))).await;
                held.push(answer);
            }
        }
    };
    answered_during(&host, "unread responses of HTTP/2", attack).await;
    assert!((size(200, 60)..=256).contains(&connections), "{connections} connections");
    drop(held);
    host.stands("unread responses of HTTP/2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn requests_that_are_taken_back_at_once_stop_no_others() {
    let (host, _certificate) = open().await;
    let attack = async {
        for _ in 0..size(200, 20) {
            let Some(mut sender) = http2(&host, ATTACKER).await else { continue };
            for _ in 0..1_000 {
                // The server may close the connection of such a client (CVE-2023-44487).
                if sender.ready().await.is_err() {
                    break;
                }
                let request = sender.send_request(get("/docs"));
                let _ = timeout(Duration::from_micros(50), request).await;
            }
        }
    };
    answered_during(&host, "requests that are taken back", attack).await;
    host.stands("requests that are taken back").await;
}
