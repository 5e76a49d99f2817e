//! The exchange with receivers that behave well, and with those that do not.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mailapi_backend::{Dns, DnsError, MailExchange, ServiceLocation};
use mailapi_model::Timestamp;
use mailapi_webhooks::{
    AddressGuard, AddressRefused, Answer, Exchange, ExchangeError, Message, Receiver, Registrant, TIME_LIMIT, Trust,
};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// DNS that gives another answer at each look-up; the last one repeats.
#[derive(Default)]
struct ChangingDns {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Dns for ChangingDns {
    async fn mx(&self, _: &str) -> Result<Vec<MailExchange>, DnsError> {
        Err(DnsError::NoSuchName)
    }

    async fn txt(&self, _: &str) -> Result<Vec<String>, DnsError> {
        Err(DnsError::NoSuchName)
    }

    async fn addresses(&self, _: &str) -> Result<Vec<IpAddr>, DnsError> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        self.answers.get(number).or(self.answers.last()).cloned().ok_or(DnsError::NoSuchName)
    }

    async fn names_of(&self, _: IpAddr) -> Result<Vec<String>, DnsError> {
        Err(DnsError::NoSuchName)
    }

    async fn srv(&self, _: &str) -> Result<Vec<ServiceLocation>, DnsError> {
        Err(DnsError::NoSuchName)
    }
}

fn here() -> IpAddr {
    [127, 0, 0, 1].into()
}

/// A sender on a machine that serves itself alone.
fn on_this_machine() -> Exchange {
    Exchange::new(Arc::new(ChangingDns::default()), AddressGuard::new(Vec::new(), true), Trust::Anybody)
}

fn message() -> Message {
    let body = Bytes::from_static(b"{\"type\":\"message.delivered\"}");
    Message {
        id: "evt_1".to_owned(),
        at: Timestamp::from_seconds(1_700_000_000),
        signatures: "v1,abc".to_owned(),
        body,
    }
}

fn to(url: &str) -> Receiver {
    Receiver { url: url.parse().unwrap(), registrant: Registrant::Admin }
}

/// What a receiver read, by connection.
type Requests = Arc<tokio::sync::Mutex<Vec<String>>>;

/// Starts a receiver that answers every request with these bytes, and keeps the connection.
async fn receiver(answer: Vec<u8>) -> (SocketAddr, Requests, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((here(), 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, connections) = (Requests::default(), Arc::new(AtomicUsize::new(0)));
    let (seen, counted) = (requests.clone(), connections.clone());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let (answer, seen) = (answer.clone(), seen.clone());
            tokio::spawn(async move { serve(stream, &answer, &seen).await });
        }
    });
    (address, requests, connections)
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &[u8], seen: &Requests) {
    let mut read = Vec::new();
    while stream.read_buf(&mut read).await.is_ok_and(|count| count > 0) {
        // The body of every message in this file ends with the only closing brace.
        if read.ends_with(b"}") {
            seen.lock().await.push(String::from_utf8(std::mem::take(&mut read)).unwrap());
            // An answer may be larger than the sender reads.
            let _ = stream.write_all(answer).await;
        }
    }
}

async fn ask(answer: &[u8]) -> Result<Answer, ExchangeError> {
    let (address, ..) = receiver(answer.to_vec()).await;
    on_this_machine().send(&to(&format!("http://{address}/")), &message(), &mut None).await
}

#[tokio::test]
async fn a_receiver_that_is_not_public_gets_no_connection() {
    let (address, requests, connections) = receiver(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()).await;
    let nowhere = Exchange::new(Arc::new(ChangingDns::default()), AddressGuard::default(), Trust::Anybody);
    for url in
        [format!("http://{address}/"), format!("https://{address}/"), format!("http://localhost:{}/", address.port())]
    {
        let refused = nowhere.send(&to(&url), &message(), &mut None).await;
        assert_eq!(refused, Err(AddressRefused::NotPublic.into()), "{url}");
    }
    let of_user = Receiver { registrant: Registrant::User, ..to(&format!("http://{address}/")) };
    let refused = on_this_machine().send(&of_user, &message(), &mut None).await;
    assert_eq!(refused, Err(AddressRefused::NotPublic.into()));
    assert_eq!((connections.load(Ordering::SeqCst), requests.lock().await.len()), (0, 0));
}

#[tokio::test]
async fn a_second_answer_of_dns_changes_nothing() {
    let (address, requests, _) = receiver(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()).await;
    // A name server that answers the check with one address, and the connection with another.
    let dns = ChangingDns { answers: vec![vec![here()], vec!["10.0.0.1".parse().unwrap()]], ..ChangingDns::default() };
    let dns = Arc::new(dns);
    let exchange = Exchange::new(dns.clone(), AddressGuard::new(Vec::new(), true), Trust::Anybody);
    let receiver = to(&format!("http://rebinding.example:{}/", address.port()));
    assert_eq!(exchange.send(&receiver, &message(), &mut None).await.unwrap().status, 204);
    assert_eq!((dns.asked.load(Ordering::SeqCst), requests.lock().await.len()), (1, 1), "one look-up per connection");
    let refused = exchange.send(&receiver, &message(), &mut None).await;
    assert_eq!(refused, Err(AddressRefused::NotPublic.into()), "each connection is checked");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (elsewhere, requests, _) = receiver(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()).await;
    let redirect = format!("HTTP/1.1 307 Moved\r\nLocation: http://{elsewhere}/\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(ask(redirect.as_bytes()).await.unwrap().status, 307);
    assert!(requests.lock().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_hangs_costs_fifteen_seconds() {
    let begun = Instant::now();
    assert_eq!(ask(b"").await, Err(ExchangeError::TimedOut));
    assert_eq!(begun.elapsed().as_secs(), TIME_LIMIT.as_secs());
    // Half a head is no answer either.
    assert_eq!(ask(b"HTTP/1.1 200 OK\r\nX-").await, Err(ExchangeError::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_changes_no_outcome() {
    let begun = Instant::now();
    let answer = ask(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc").await.unwrap();
    assert_eq!((answer.status, answer.excerpt.as_str()), (200, "abc"));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn little_of_a_large_answer_is_read_and_less_is_kept() {
    let mut large = b"HTTP/1.1 500 Oops\r\nContent-Length: 67108864\r\n\r\n".to_vec();
    large.resize(large.len() + (64 << 20), b'x');
    let (address, ..) = receiver(large).await;
    let mut kept = None;
    let answer = on_this_machine().send(&to(&format!("http://{address}/")), &message(), &mut kept).await.unwrap();
    assert_eq!((answer.status, answer.excerpt.len()), (500, 1024));
    assert!(kept.is_none(), "the connection is closed");
}

#[tokio::test]
async fn answers_that_are_not_http_are_failures() {
    let long_head = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "a".repeat(100_000));
    for answer in ["hello\r\n\r\n", "HTTP/1.1 banana\r\n\r\n", "\0\0\0\0\0\0\0\0\r\n", &long_head] {
        assert!(matches!(ask(answer.as_bytes()).await, Err(ExchangeError::NoAnswer(_))), "{answer:.20}");
    }
    let nobody = TcpListener::bind((here(), 0)).await.unwrap().local_addr().unwrap();
    let refused = on_this_machine().send(&to(&format!("http://{nobody}/")), &message(), &mut None).await;
    assert!(matches!(refused, Err(ExchangeError::NoConnection(_))), "{refused:?}");
}

#[tokio::test]
async fn control_characters_of_an_answer_are_replaced() {
    let answer = ask(b"HTTP/1.1 400 Bad\r\nContent-Length: 6\r\n\r\na\0\x1bb\n\xff").await.unwrap();
    assert_eq!(answer.excerpt, "a\u{fffd}\u{fffd}b\n\u{fffd}");
}

#[tokio::test]
async fn a_message_has_the_headers_of_the_standard_and_its_exact_body() {
    let (address, requests, connections) =
        receiver(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno".to_vec()).await;
    let (exchange, receiver) = (on_this_machine(), to(&format!("http://{address}/hook?a=b")));
    let mut kept = None;
    for _ in 0..2 {
        let answer = exchange.send(&receiver, &message(), &mut kept).await.unwrap();
        let expected = Answer { status: 503, retry_after: Some(Duration::from_secs(7)), excerpt: "no".to_owned() };
        assert_eq!(answer, expected);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1, "the connection is used again");
    let requests = requests.lock().await;
    let (head, body) = requests[1].split_once("\r\n\r\n").unwrap();
    assert_eq!(body.as_bytes(), message().body);
    assert!(head.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{head}");
    for line in [
        format!("host: {address}"),
        "content-type: application/json".to_owned(),
        "webhook-id: evt_1".to_owned(),
        "webhook-timestamp: 1700000000".to_owned(),
        "webhook-signature: v1,abc".to_owned(),
        format!("content-length: {}", message().body.len()),
    ] {
        assert!(head.lines().any(|found| found == line), "{line} is missing from {head}");
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_is_opened_again() {
    let (address, _, connections) =
        receiver(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()).await;
    let (exchange, receiver, mut kept) = (on_this_machine(), to(&format!("http://{address}/")), None);
    for _ in 0..3 {
        assert_eq!(exchange.send(&receiver, &message(), &mut kept).await.unwrap().status, 200);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn the_certificate_must_be_for_the_name() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["hook.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((here(), 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(stream, b"HTTP/1.1 204 No Content\r\n\r\n", &Requests::default()).await;
            }
        }
    });
    let dns = || Arc::new(ChangingDns { answers: vec![vec![here()]], ..ChangingDns::default() });
    let guard = || AddressGuard::new(vec!["127.0.0.0/8".parse().unwrap()], false);
    let trusting = Exchange::new(dns(), guard(), Trust::Authorities(certificate.pem().into_bytes()));
    let other = to(&format!("https://other.example:{port}/"));
    assert!(matches!(trusting.send(&other, &message(), &mut None).await, Err(ExchangeError::Tls(_))));
    let receiver = to(&format!("https://hook.example:{port}/"));
    let strict = Exchange::new(dns(), guard(), Trust::System);
    assert!(matches!(strict.send(&receiver, &message(), &mut None).await, Err(ExchangeError::Tls(_))));
    assert_eq!(trusting.send(&receiver, &message(), &mut None).await.unwrap().status, 204);
}
