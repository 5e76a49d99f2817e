//! TLS towards other servers.

use std::fmt;
use std::io;

use mailapi_tls::{TlsError, Trust, client_config};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::Stream;

/// Does the client's side of handshakes; clones share it.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

impl ClientTls {
    /// A client that trusts as it is told.
    ///
    /// # Errors
    /// [`TlsError`] when there are no authorities, or they cannot be read.
    pub fn new(trust: &Trust) -> Result<Self, TlsError> {
        Ok(Self(TlsConnector::from(client_config(trust)?)))
    }

    /// Does the handshake with the server that was reached under `name`, a host name or an IP address, and leaves the
    /// encrypted connection in `stream`.
    ///
    /// # Errors
    /// When the server does not keep to the protocol or is not trusted. `stream` is then [`Stream::Lost`].
    pub async fn upgrade(&self, name: &str, stream: &mut Stream) -> io::Result<()> {
        let plain = std::mem::replace(stream, Stream::Lost).into_plain()?;
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        *stream = Stream::Client(Box::new(self.0.connect(name, plain).await?));
        Ok(())
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClientTls")
    }
}
