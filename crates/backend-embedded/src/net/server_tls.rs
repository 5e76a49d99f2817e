//! TLS of the listeners.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mailapi_tls::{TlsError, expires_at};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::Stream;

/// The server's certificate and key. Clones share them, also after [`ServerTls::replace`].
#[derive(Clone)]
pub struct ServerTls {
    current: Arc<Mutex<Current>>,
}

/// Time limit for a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// The certificate in use.
struct Current {
    acceptor: TlsAcceptor,
    /// Seconds since the Unix epoch.
    expires_at: Option<i64>,
}

impl ServerTls {
    /// Parses two PEM texts: the certificate chain, leaf first, and the private key.
    ///
    /// # Errors
    /// [`TlsError`] if one of them is missing or malformed, or they do not match.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let current = Arc::new(Mutex::new(Current::from_pem(certificates, key)?));
        Ok(Self { current })
    }

    /// Uses another certificate from the next handshake on. Connections that are already encrypted continue.
    ///
    /// # Errors
    /// Those of [`ServerTls::from_pem`]; the current certificate then stays in use.
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let current = Current::from_pem(certificates, key)?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(())
    }

    /// Returns when the certificate expires, in seconds since the Unix epoch; `None` if that cannot be read.
    #[must_use]
    pub fn expires_at(&self) -> Option<i64> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).expires_at
    }

    /// Performs the server side of the handshake and replaces `stream` with the encrypted connection.
    ///
    /// # Errors
    /// If the client violates the protocol or exceeds the time-out, or the connection is already encrypted.
    /// `stream` is then [`Stream::Lost`].
    pub async fn upgrade(&self, stream: &mut Stream) -> io::Result<()> {
        let plain = std::mem::replace(stream, Stream::Lost).into_plain()?;
        // Cloned, so that the lock is not held during the handshake.
        let acceptor = self.current.lock().unwrap_or_else(PoisonError::into_inner).acceptor.clone();
        let handshake = acceptor.accept(plain);
        let encrypted = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await??;
        *stream = Stream::Tls(Box::new(encrypted));
        Ok(())
    }
}

impl Current {
    /// Returns the TLS server configuration for this certificate and key.
    fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::new(format!("cannot read the certificate: {error}")))?;
        let Some(leaf) = chain.first() else { return Err(TlsError::new("no certificate found")) };
        let expires_at = expires_at(leaf);
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::new("no usable private key found"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| TlsError::new(error.to_string()))?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), expires_at })
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_certificate_or_key_is_refused_and_never_shown() {
        let mine = rcgen::generate_simple_self_signed(["mx.example".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["mx.example".to_owned()]).unwrap();
        let (certificate, key) = (mine.cert.pem(), mine.signing_key.serialize_pem());
        let others_key = other.signing_key.serialize_pem();
        for (certificate, key) in
            [("", key.as_str()), (certificate.as_str(), ""), (&certificate, "garbage"), (&certificate, &others_key)]
        {
            let error = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err().to_string();
            assert!(key.is_empty() || !error.contains(key), "{error}");
        }
        assert!(ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).is_ok());
    }
}
