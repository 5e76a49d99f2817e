//! Reads the header of a connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::{HeaderError, HeaderReader, Network, ReportedClient, is_trusted};

/// Time limit for a header. A proxy sends it as soon as it has connected; only a lost packet delays it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of one look at the connection; most headers are shorter.
const LOOK_BYTES: usize = 256;

/// The proxies whose connections to a listener begin with a header. By default there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnnouncingProxies(Arc<[Network]>);

/// A trusted proxy did not announce the client of its connection.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// The proxy sent something else.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The header did not arrive in time.
    #[error("the PROXY header did not arrive within {} seconds", HEADER_TIMEOUT.as_secs())]
    TimeOut,
    /// The connection ended before.
    #[error("the connection ended before its PROXY header")]
    Ended(#[from] io::Error),
}

impl AnnouncingProxies {
    pub(crate) fn new(trusted: Arc<[Network]>) -> Self {
        Self(trusted)
    }

    /// Returns whether connections of this address begin with a header.
    #[must_use]
    pub fn contain(&self, peer: IpAddr) -> bool {
        is_trusted(peer, &self.0)
    }
}

/// Reads the header at the beginning of a connection of `proxy`, and returns the client's address. Without one in the
/// header, it is the proxy's. The stream then continues with the listener's protocol.
///
/// # Errors
/// [`AnnounceError`] if there is no header. The connection must be closed then.
pub async fn announced_client(stream: &mut TcpStream, proxy: SocketAddr) -> Result<SocketAddr, AnnounceError> {
    let reported = tokio::time::timeout(HEADER_TIMEOUT, read_header(stream)).await;
    let reported = reported.map_err(|_| AnnounceError::TimeOut)??;
    Ok(client_of(reported, proxy))
}

async fn read_header(stream: &mut TcpStream) -> Result<ReportedClient, AnnounceError> {
    let (mut reader, mut seen) = (HeaderReader::default(), [0; LOOK_BYTES]);
    loop {
        // Looks first, because a TLS handshake may follow directly and needs every byte of its own.
        let arrived = stream.peek(&mut seen).await?;
        if arrived == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let taken = reader.take(&seen[..arrived]);
        // Unread bytes would make the system reset the connection, and the reply to a wrong beginning would be lost.
        let length = taken.as_ref().map_or(arrived, |taken| taken.length);
        stream.read_exact(&mut seen[..length]).await?;
        if let Some(client) = taken?.client {
            return Ok(client);
        }
    }
}

fn client_of(reported: ReportedClient, proxy: SocketAddr) -> SocketAddr {
    let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    match reported {
        // A loopback address in a header means the proxy's machine, and must not be taken for this one.
        ReportedClient::Address(client) if !is_loopback(client) || is_loopback(proxy) => client,
        ReportedClient::Address(_) | ReportedClient::Unknown => proxy,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Two ends of a connection.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn what_follows_the_header_stays_in_the_connection() {
        let (mut proxy, mut server) = connection().await;
        let peer = server.peer_addr().unwrap();
        let reading = tokio::spawn(async move {
            let client = announced_client(&mut server, peer).await.unwrap();
            let mut rest = String::new();
            server.read_to_string(&mut rest).await.unwrap();
            (client.to_string(), rest)
        });
        for piece in ["PRO", "XY TCP4 192.0.2.7 10.0.0.1 12345 25\r", "\nEHLO x\r\n"] {
            proxy.write_all(piece.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(proxy);
        assert_eq!(reading.await.unwrap(), ("192.0.2.7:12345".to_owned(), "EHLO x\r\n".to_owned()));
    }

    #[tokio::test]
    async fn a_connection_without_a_header_is_refused() {
        let peer = "127.0.0.1:1".parse().unwrap();
        let (mut proxy, mut server) = connection().await;
        proxy.write_all(b"EHLO x\r\n").await.unwrap();
        let refused = announced_client(&mut server, peer).await.unwrap_err();
        assert!(matches!(refused, AnnounceError::Header(HeaderError::Missing)));
        let (proxy, mut server) = connection().await;
        drop(proxy);
        assert!(matches!(announced_client(&mut server, peer).await.unwrap_err(), AnnounceError::Ended(_)));
    }

    #[test]
    fn a_loopback_address_of_another_machine_is_not_this_one() {
        let client = |reported: &str, proxy: &str| {
            let reported = ReportedClient::Address(reported.parse().unwrap());
            client_of(reported, proxy.parse().unwrap()).to_string()
        };
        assert_eq!(client("127.0.0.1:7", "10.0.0.1:9"), "10.0.0.1:9");
        assert_eq!(client("[::1]:7", "10.0.0.1:9"), "10.0.0.1:9");
        assert_eq!(client("127.0.0.1:7", "[::1]:9"), "127.0.0.1:7");
        assert_eq!(client("192.0.2.7:7", "10.0.0.1:9"), "192.0.2.7:7");
        let proxy = "10.0.0.1:9".parse().unwrap();
        assert_eq!(client_of(ReportedClient::Unknown, proxy), proxy);
    }
}
