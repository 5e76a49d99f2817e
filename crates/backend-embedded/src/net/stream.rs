//! A plain or encrypted connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

/// A connection to or from this server.
#[derive(Debug)]
pub enum Stream {
    /// Not encrypted.
    Plain(TcpStream),
    /// Encrypted; we are the server.
    Server(Box<server::TlsStream<TcpStream>>),
    /// Encrypted; we are the client.
    Client(Box<client::TlsStream<TcpStream>>),
    /// Lost in a handshake: reads return the end of the stream, writes fail.
    Lost,
}

impl Stream {
    /// Wraps a connection and disables Nagle's algorithm: every write is complete and should leave at once.
    ///
    /// # Errors
    /// If the connection is already closed.
    pub fn plain(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::Plain(stream))
    }

    /// Returns the plain connection for its TLS handshake.
    ///
    /// # Errors
    /// If it is already encrypted or lost.
    pub fn into_plain(self) -> io::Result<TcpStream> {
        match self {
            Self::Plain(stream) => Ok(stream),
            Self::Server(_) | Self::Client(_) => Err(io::Error::other("the connection is already encrypted")),
            Self::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Returns whether the connection is encrypted.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Server(_) | Self::Client(_))
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Server(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Client(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Lost => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Server(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Client(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Lost => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Server(stream) => Pin::new(stream).poll_flush(cx),
            Self::Client(stream) => Pin::new(stream).poll_flush(cx),
            Self::Lost => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Server(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Client(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Lost => Poll::Ready(Ok(())),
        }
    }
}
