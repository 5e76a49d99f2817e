//! Fetches a policy by HTTPS (RFC 8461 section 3.3).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use mailapi_backend::Dns;
use mailapi_model::DomainName;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::StsSettings;
use crate::delivery_agent::connect::is_this_machine;

/// Time limit of a fetch (RFC 8461 section 3.3 recommends a minute). Messages wait for it.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a connection: one address that does not answer leaves time for another.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of addresses that are tried.
const MAX_TRIED: usize = 2;
/// Maximum size of a policy (RFC 8461 section 3.3).
const MAX_POLICY_BYTES: usize = 64 * 1024;

/// Why a policy could not be fetched.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The certificate of its host is not valid, which RFC 8460 section 4.3 distinguishes.
    NotAuthentic(String),
    /// The host did not answer, or its answer is not a policy.
    Failed(String),
}

impl From<String> for FetchError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// Returns the text of the domain's policy.
pub(super) async fn fetch(
    domain: &DomainName,
    dns: &dyn Dns,
    tls: Arc<ClientConfig>,
    settings: &StsSettings,
) -> Result<Bytes, FetchError> {
    let fetched = timeout(TIME_LIMIT, exchange(domain, dns, tls, settings)).await;
    fetched.unwrap_or_else(|_| Err(format!("no answer within {} seconds", TIME_LIMIT.as_secs()).into()))
}

async fn exchange(
    domain: &DomainName,
    dns: &dyn Dns,
    tls: Arc<ClientConfig>,
    settings: &StsSettings,
) -> Result<Bytes, FetchError> {
    let host = format!("mta-sts.{domain}");
    let stream = connect(&host, dns, tls, settings).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(shown)?;
    let connection = tokio::spawn(connection);
    let request = Request::get("/.well-known/mta-sts.txt")
        .header(HOST, &host)
        .header(USER_AGENT, concat!("mailapi/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(shown)?;
    let response = sender.send_request(request).await.map_err(shown)?;
    // Redirects are not followed: the certificate of this host alone proves that the policy is the domain's.
    if response.status() != StatusCode::OK {
        return Err(format!("{host} answers with status {}", response.status().as_u16()).into());
    }
    let body = Limited::new(response.into_body(), MAX_POLICY_BYTES).collect().await;
    connection.abort();
    body.map(http_body_util::Collected::to_bytes).map_err(|error| error.to_string().into())
}

async fn connect(
    host: &str,
    dns: &dyn Dns,
    tls: Arc<ClientConfig>,
    settings: &StsSettings,
) -> Result<TlsStream<TcpStream>, FetchError> {
    let addresses = dns.addresses(host).await.map_err(|error| format!("{host}: {error}"))?;
    let is_allowed = |address: &IpAddr| settings.allow_loopback || !is_this_machine(*address);
    let mut last = format!("{host} has no usable address");
    for address in addresses.into_iter().filter(is_allowed).take(MAX_TRIED) {
        match timeout(CONNECT_LIMIT, TcpStream::connect(SocketAddr::new(address, settings.port))).await {
            Ok(Ok(stream)) => {
                let name = ServerName::try_from(host.to_owned()).map_err(shown)?;
                return TlsConnector::from(tls).connect(name, stream).await.map_err(of_handshake);
            }
            Ok(Err(error)) => last = format!("no connection to {host}: {error}"),
            Err(_) => last = format!("{host} does not answer"),
        }
    }
    Err(last.into())
}

fn of_handshake(error: std::io::Error) -> FetchError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => FetchError::NotAuthentic(error.to_string()),
        _ => FetchError::Failed(error.to_string()),
    }
}

fn shown(error: impl std::error::Error) -> String {
    error.to_string()
}
