//! HTTPS to the authority: one connection for each request, since an order has a dozen.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Time limit of a request, connection included.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Maximum size of an answer. A certificate with its chain has some kilobytes.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Connections to the authority.
pub(crate) struct Connections {
    tls: Arc<ClientConfig>,
}

impl Connections {
    pub(crate) const fn new(tls: Arc<ClientConfig>) -> Self {
        Self { tls }
    }
}

impl HttpClient for Connections {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let exchange = exchange(Arc::clone(&self.tls), request);
        Box::pin(async move {
            let answer = tokio::time::timeout(TIME_LIMIT, exchange).await;
            answer.unwrap_or_else(|_| Err("no answer within 30 seconds".into())).map_err(Error::Other)
        })
    }
}

async fn exchange(
    tls: Arc<ClientConfig>,
    mut request: Request<BodyWrapper<Bytes>>,
) -> Result<BytesResponse, Box<dyn std::error::Error + Send + Sync>> {
    let (host, port) = authority(request.uri())?;
    let name = ServerName::try_from(host.clone())?;
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    let stream = TlsConnector::from(tls).connect(name, stream).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let host = if port == 443 { host } else { format!("{host}:{port}") };
    request.headers_mut().insert(HOST, HeaderValue::from_str(&host)?);
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await?.to_bytes();
    connection.abort();
    let (parts, ()) = Response::from_parts(head, ()).into_parts();
    Ok(BytesResponse { parts, body: Box::new(body) })
}

/// Returns the host and port of an `https` URL. Others would show orders to anybody.
fn authority(url: &Uri) -> io::Result<(String, u16)> {
    match (url.scheme_str(), url.host()) {
        (Some("https"), Some(host)) => Ok((host.trim_matches(['[', ']']).to_owned(), url.port_u16().unwrap_or(443))),
        _ => Err(io::Error::other("the authority named a URL that is not https")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_used() {
        for wrong in ["http://ca.example/directory", "/directory", "ca.example"] {
            assert!(authority(&wrong.parse().unwrap()).is_err(), "{wrong}");
        }
        let found = |url: &str| authority(&url.parse().unwrap()).unwrap();
        assert_eq!(found("https://ca.example/directory"), ("ca.example".to_owned(), 443));
        assert_eq!(found("https://[::1]:14000/dir"), ("::1".to_owned(), 14000));
    }
}
