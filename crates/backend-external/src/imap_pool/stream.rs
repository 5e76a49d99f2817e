//! The byte stream to the server, with or without TLS.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub(super) trait ReadWrite: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> ReadWrite for T {}

/// The byte stream of a connection.
pub(super) type Stream = Box<dyn ReadWrite>;

/// Connects, with Nagle's algorithm (RFC 896) turned off: small commands must leave at once.
pub(super) async fn connect(host: &str, port: u16) -> io::Result<Stream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// Performs the TLS handshake.
pub(super) async fn encrypt(stream: Stream, host: &str, config: Arc<ClientConfig>) -> io::Result<Stream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
}
