//! The HTTPS proxy in front of the imitations. It ends TLS with a certificate of its own authority.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::store::{ApiTrouble, FakeAnswer, FakeRequest, ProviderStore, TroubleAt};
use crate::{cloudflare, desec, route53};

pub(crate) const CLOUDFLARE: &str = "api.cloudflare.com";
pub(crate) const DESEC: &str = "desec.io";
pub(crate) const ROUTE53: &str = "route53.amazonaws.com";

type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// A running proxy.
#[derive(Debug)]
pub(crate) struct ApiProxy {
    pub(crate) address: SocketAddr,
    /// The certificate of the authority.
    pub(crate) authority: String,
    pub(crate) stores: Arc<ApiStores>,
}

/// The imitated providers.
#[derive(Debug, Default)]
pub(crate) struct ApiStores {
    pub(crate) cloudflare: ProviderStore,
    pub(crate) desec: ProviderStore,
    pub(crate) route53: ProviderStore,
    /// Hosts that a client asked the proxy for, other than those of the APIs.
    pub(crate) other_hosts: Mutex<Vec<String>>,
}

impl ApiStores {
    fn of(&self, host: &str) -> &ProviderStore {
        match host {
            CLOUDFLARE => &self.cloudflare,
            DESEC => &self.desec,
            _ => &self.route53,
        }
    }
}

impl ApiProxy {
    pub(crate) async fn start() -> Self {
        let (acceptor, authority) = tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stores = Arc::new(ApiStores::default());
        let served = Arc::clone(&stores);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), Arc::clone(&served)));
            }
        });
        Self { address, authority, stores }
    }
}

fn tls() -> (TlsAcceptor, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let hosts = [CLOUDFLARE, DESEC, ROUTE53].map(str::to_owned).to_vec();
    let host_key = KeyPair::generate().unwrap();
    let host = CertificateParams::new(hosts).unwrap().signed_by(&host_key, &issuer).unwrap();
    let private = PrivateKeyDer::try_from(host_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![host.der().clone()], private).unwrap();
    (TlsAcceptor::from(Arc::new(config)), certificate)
}

/// Serves one connection; its client may end it at any point.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, stores: Arc<ApiStores>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await.ok()?;
    let host = first.strip_prefix("CONNECT ")?.split(':').next()?.to_owned();
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
    }
    if ![CLOUDFLARE, DESEC, ROUTE53].contains(&host.as_str()) {
        stores.other_hosts.lock().unwrap().push(host);
        stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await.ok()?;
        return None;
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    let stream = acceptor.accept(stream).await.ok()?;
    let service = service_fn(|request| answer(&stores, &host, request));
    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok()
}

/// Answers a request. An error ends the connection without an answer.
async fn answer(stores: &ApiStores, host: &str, request: Request<Incoming>) -> io::Result<Response<AnswerBody>> {
    let request = read(request).await?;
    let store = stores.of(host);
    let at = if request.method == "GET" { TroubleAt::Reads } else { TroubleAt::Writes };
    store.lock().requests.push(format!("{} {}", request.method, request.path));
    let done = || match host {
        CLOUDFLARE => cloudflare::answer(&mut store.lock(), &request),
        DESEC => desec::answer(&mut store.lock(), &request),
        _ => route53::answer(&mut store.lock(), &request),
    };
    let trouble = store.trouble(at);
    if trouble.is_some() {
        store.troubled.notify_one();
    }
    let error = |status| FakeAnswer::new(status, r#"{"detail":"trouble"}"#);
    let answer = match trouble {
        None => done(),
        Some(ApiTrouble::Status(status)) => error(status),
        Some(ApiTrouble::StatusAfterwards(status)) => {
            done();
            error(status)
        }
        Some(ApiTrouble::Limited(seconds)) => {
            FakeAnswer { headers: vec![("Retry-After", seconds.to_string())], ..error(429) }
        }
        Some(ApiTrouble::CutJson) => {
            let answer = done();
            FakeAnswer { body: answer.body[..answer.body.len() / 2].to_owned(), ..answer }
        }
        Some(ApiTrouble::HalfBody) => {
            let answer = done();
            let (whole, half) =
                (answer.body.len().max(2), Bytes::from(answer.body[..answer.body.len() / 2].to_owned()));
            let frames = [Ok(Frame::data(half)), Err(io::ErrorKind::ConnectionAborted.into())];
            let body = BodyExt::boxed_unsync(StreamBody::new(stream::iter(frames)));
            return Ok(Response::builder().status(200).header("Content-Length", whole).body(body).unwrap());
        }
        Some(ApiTrouble::CutBefore) => return Err(io::ErrorKind::ConnectionAborted.into()),
        Some(ApiTrouble::CutAfterwards) => {
            done();
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Some(ApiTrouble::Hang) => {
            done();
            std::future::pending().await
        }
        Some(ApiTrouble::Redirect) => {
            FakeAnswer { headers: vec![("Location", "https://evil.example/".to_owned())], ..error(302) }
        }
        Some(ApiTrouble::Endless) => {
            let piece = Bytes::from(vec![b' '; 1 << 20]);
            let frames = stream::iter(std::iter::repeat_with(move || Ok(Frame::data(piece.clone()))));
            return Ok(Response::new(BodyExt::boxed_unsync(StreamBody::new(frames))));
        }
        Some(ApiTrouble::Echo(status)) => {
            let all: Vec<_> = request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            FakeAnswer::new(status, all.join("; "))
        }
    };
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    let body = Full::new(Bytes::from(answer.body)).map_err(|error: Infallible| match error {});
    Ok(response.body(BodyExt::boxed_unsync(body)).unwrap())
}

async fn read(request: Request<Incoming>) -> io::Result<FakeRequest> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let decoded = |text: &str| text.replace("%5C", "\\").replace("%2A", "*");
    let pairs = head.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    Ok(FakeRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
        headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: String::from_utf8(body.to_vec()).map_err(io::Error::other)?,
    })
}
