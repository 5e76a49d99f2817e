//! TLS towards other servers.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use super::{Stream, TlsError};

/// Whose certificate is good enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsTrust {
    /// Anybody's: TLS is used because it is offered, and the alternative is no TLS (RFC 7435 section 3).
    Anybody,
    /// One of the name that was asked for, issued by an authority that the system trusts.
    System,
    /// One of the name that was asked for, issued by an authority of this PEM text.
    Authorities(Vec<u8>),
}

/// Does the client's side of handshakes; clones share it.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

impl ClientTls {
    /// A client that trusts as it is told.
    ///
    /// # Errors
    /// [`TlsError`] when there are no authorities, or they cannot be read.
    pub fn new(trust: &TlsTrust) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(error.to_string()))?;
        let config = match trust {
            TlsTrust::Anybody => {
                let verifier = Arc::new(AnyCertificate(provider));
                builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
            }
            TlsTrust::System => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
            TlsTrust::Authorities(pem) => builder.with_root_certificates(roots(pem)?).with_no_client_auth(),
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
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

fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    // A system's store may hold certificates that nobody can use; the others count.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    some(roots, "the system trusts no certificate authority")
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let unreadable = |error: &dyn fmt::Display| TlsError(format!("an authority cannot be read: {error}"));
        roots.add(certificate.map_err(|error| unreadable(&error))?).map_err(|error| unreadable(&error))?;
    }
    some(roots, "there is no certificate authority")
}

fn some(roots: RootCertStore, otherwise: &str) -> Result<RootCertStore, TlsError> {
    if roots.is_empty() { Err(TlsError(otherwise.to_owned())) } else { Ok(roots) }
}

/// Takes every certificate. The handshake itself is verified, so that nobody but the holder of the certificate's key
/// can have done it; who that is, is left open.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
