//! A TCP connection, with or without TLS, whose reads and writes have deadlines.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use mailapi_smtp::client::Cause;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio_rustls::TlsConnector;

use crate::time_limits::Deadline;

/// Bytes per read; replies are short.
const READ_BYTES: usize = 4096;

trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

pub(crate) struct Socket {
    stream: Box<dyn Stream>,
    buffer: Box<[u8]>,
}

impl Socket {
    /// Connects, and returns the server's address too.
    pub(crate) async fn connect(address: impl ToSocketAddrs, due: Deadline) -> Result<(Self, SocketAddr), Cause> {
        let connecting = async {
            let stream = TcpStream::connect(address).await?;
            // Each write is complete and should leave at once, so turn off Nagle's algorithm.
            stream.set_nodelay(true)?;
            let peer = stream.peer_addr()?;
            Ok((Self { stream: Box::new(stream), buffer: vec![0; READ_BYTES].into() }, peer))
        };
        due.bound(connecting).await
    }

    /// Performs the TLS handshake. The certificate must be valid for `host` if the configuration verifies it.
    pub(crate) async fn encrypt(
        self,
        host: &str,
        tls: &Arc<rustls::ClientConfig>,
        due: Deadline,
    ) -> Result<Self, Cause> {
        let Self { stream, buffer } = self;
        let handshake = async {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            TlsConnector::from(tls.clone()).connect(name, stream).await
        };
        Ok(Self { stream: Box::new(due.bound(handshake).await?), buffer })
    }

    pub(crate) async fn write(&mut self, bytes: &[u8], due: Deadline) -> Result<(), Cause> {
        let writing = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        due.bound(writing).await
    }

    /// Reads at least one byte.
    pub(crate) async fn read(&mut self, due: Deadline) -> Result<&[u8], Cause> {
        match due.bound(self.stream.read(&mut self.buffer)).await? {
            0 => Err(Cause::Closed),
            read => Ok(&self.buffer[..read]),
        }
    }

    /// Returns whether the server sent something or closed the connection. The input is lost, so nothing can be
    /// read afterwards.
    pub(crate) fn has_input(&mut self) -> bool {
        self.stream.read(&mut self.buffer).now_or_never().is_some()
    }

    pub(crate) async fn close(mut self, due: Deadline) {
        // The connection ends whether or not the server is notified.
        let _ = due.bound(self.stream.shutdown()).await;
    }
}
