//! TLS towards the operator's mail server.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// When a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never.
    #[default]
    None,
    /// After STARTTLS; a server that does not offer it is not used.
    StartTls,
    /// From the first octet on (RFC 8314 section 3).
    Implicit,
}

/// Which authorities may vouch for the server's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TlsTrust {
    /// Those that the system trusts.
    #[default]
    System,
    /// Those of this PEM text; for a certificate that the operator issued.
    Authorities(Vec<u8>),
}

/// There are no authorities, or they cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub struct TlsError(String);

/// How the client's side of handshakes is done.
///
/// # Errors
/// [`TlsError`] when nobody is left to be trusted.
pub fn client_config(trust: &TlsTrust) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    match trust {
        TlsTrust::System => {
            // A system's store may hold certificates that nobody can use; the others count.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        TlsTrust::Authorities(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| TlsError(error.to_string()))?;
                roots.add(certificate).map_err(|error| TlsError(error.to_string()))?;
            }
        }
    }
    if roots.is_empty() {
        return Err(TlsError("no certificate authority is trusted".to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_authority_is_an_error() {
        for pem in ["", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(client_config(&TlsTrust::Authorities(pem.into())).is_err(), "{pem}");
        }
    }
}
