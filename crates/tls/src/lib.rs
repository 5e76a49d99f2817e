//! TLS: which certificates of other servers are trusted, and the certificate of this server's listeners.
//!
//! Mail servers and databases use different protocols; the trust decision is the same for all of them. All listeners
//! show one certificate.

mod certificate;
mod challenges;
mod dane;
mod handshake;
mod server;

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, ProtocolVersion, RootCertStore, SignatureScheme, WantsVerifier,
};

use handshake::KeyVerdict;

pub use certificate::{Validity, key_digest, key_digest_of, renewal_identity};
pub use challenges::{CHALLENGE_PROTOCOL, Challenges, OpenChallenge};
pub use dane::{TlsAssociation, dane_config, dane_config_for_short_keys};
pub use server::ServerTls;

/// Which certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// No certificate: for a library that demands a configuration and never uses it.
    Nobody,
    /// Every certificate. This protects against passive eavesdropping only (RFC 7435 section 3).
    Anybody,
    /// Certificates for the requested name, issued by an authority that the system trusts.
    #[default]
    System,
    /// Certificates for the requested name, issued by an authority of this PEM text.
    Authorities(Vec<u8>),
}

/// No authority is trusted, or a certificate or key cannot be used. The text never contains a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot set up TLS: {0}")]
pub struct TlsError(String);

impl TlsError {
    /// Creates an error with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Returned by every handshake that needs an authority of the system, if it has none, as in many container images.
const NO_AUTHORITIES: &str = "this machine trusts no CA certificate; install the package ca-certificates and restart \
                              mailapi";

/// Returns whether the system trusts any authority.
#[must_use]
pub fn has_system_authorities() -> bool {
    system_roots().is_ok()
}

/// Returns the client configuration for this trust. If the system trusts no authority, the handshake fails and names
/// the missing package: most work needs no authority, least of all a look-up in DNS.
///
/// # Errors
/// [`TlsError`] if the text of [`Trust::Authorities`] has no authorities, or they cannot be read.
pub fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, TlsError> {
    let (provider, builder) = client_config_builder()?;
    let builder = match trust {
        Trust::Anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
        Trust::Nobody => refusing(builder, provider, "no certificate is trusted here"),
        Trust::System => match system_roots() {
            Ok(roots) => builder.with_root_certificates(roots),
            Err(_) => refusing(builder, provider, NO_AUTHORITIES),
        },
        Trust::Authorities(pem) => {
            let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
            let unreadable = |error| TlsError(format!("cannot read the CA certificates: {error}"));
            let (roots, unusable) = roots(certificates.map_err(unreadable)?)?;
            if unusable > 0 {
                tracing::warn!(unusable, "unusable CA certificates ignored");
            }
            builder.with_root_certificates(roots)
        }
    };
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// Returns the authorities of the system. Unusable certificates are common there, so they are not logged.
fn system_roots() -> Result<RootCertStore, TlsError> {
    roots(rustls_native_certs::load_native_certs().certs).map(|(roots, _)| roots)
}

/// Completes a configuration whose handshakes fail for this reason.
fn refusing(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    provider: Arc<CryptoProvider>,
    reason: &'static str,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    builder.dangerous().with_custom_certificate_verifier(Arc::new(NoCertificate { reason, provider }))
}

/// Returns a configuration that lacks only the trust, and the cryptography that it uses.
fn client_config_builder() -> Result<(Arc<CryptoProvider>, ConfigBuilder<ClientConfig, WantsVerifier>), TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?;
    Ok((provider, builder))
}

/// Builds the store of authorities, and returns the number of unusable certificates. A bundle may contain some; the
/// others count.
fn roots(certificates: Vec<CertificateDer<'static>>) -> Result<(RootCertStore, usize), TlsError> {
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(certificates);
    if roots.is_empty() { Err(TlsError::new("there is no usable CA certificate")) } else { Ok((roots, unusable)) }
}

/// Accepts every certificate, also one that cannot be read. It still verifies the handshake signature if the key allows
/// it, so the peer holds the certificate's key; its identity remains unknown.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl AnyCertificate {
    /// Verifies the signature by the key alone. A key that cannot be used proves nothing; neither would a valid signature,
    /// since an attacker may show any certificate. Encryption is still better than none (RFC 7435 section 3).
    fn verify_by_key(
        &self,
        version: ProtocolVersion,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Option<HandshakeSignatureValid> {
        match handshake::verify_by_key(version, message, certificate, signature, &self.0) {
            KeyVerdict::Valid | KeyVerdict::UnusableKey => Some(HandshakeSignatureValid::assertion()),
            KeyVerdict::Invalid => None,
        }
    }
}

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
            .or_else(|error| self.verify_by_key(ProtocolVersion::TLSv1_2, message, certificate, signature).ok_or(error))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
            .or_else(|error| self.verify_by_key(ProtocolVersion::TLSv1_3, message, certificate, signature).ok_or(error))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Accepts no certificate, for this reason.
#[derive(Debug)]
struct NoCertificate {
    reason: &'static str,
    provider: Arc<CryptoProvider>,
}

impl NoCertificate {
    fn refusal<T>(&self) -> Result<T, rustls::Error> {
        Err(rustls::Error::General(self.reason.to_owned()))
    }
}

impl ServerCertVerifier for NoCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.refusal()
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.refusal()
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.refusal()
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_authority_is_an_error() {
        for pem in ["", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(client_config(&Trust::Authorities(pem.into())).is_err(), "{pem}");
        }
    }

    #[test]
    fn a_bundle_counts_for_the_authorities_in_it_that_can_be_used() {
        let authority = rcgen::generate_simple_self_signed(["mail.test".to_owned()]).unwrap().cert.pem();
        let unusable = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(client_config(&Trust::Authorities(format!("{unusable}{authority}").into())).is_ok());
        let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert!(client_config(&Trust::Authorities(format!("{authority}{torn}").into())).is_err());
    }
}
