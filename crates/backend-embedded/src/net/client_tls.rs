//! TLS of connections to other servers.

use std::fmt;
use std::io;

use mailapi_tls::{TlsError, Trust, client_config};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::Stream;

/// Performs the client side of TLS handshakes. Clones share the configuration.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

impl ClientTls {
    /// Returns a client with the given trust settings.
    ///
    /// # Errors
    /// [`TlsError`] if the root certificates are missing or unreadable.
    pub fn new(trust: &Trust) -> Result<Self, TlsError> {
        Ok(Self(TlsConnector::from(client_config(trust)?)))
    }

    /// Performs the handshake and replaces `stream` with the encrypted connection. `name` is the server's
    /// host name or IP address.
    ///
    /// # Errors
    /// If the server violates the protocol or is not trusted. `stream` is then [`Stream::Lost`].
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
