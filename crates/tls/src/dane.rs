//! DANE: the certificates that DNS publishes for a mail server (RFC 6698, and RFC 7672 for SMTP).

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS12;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, ProtocolVersion, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256, Sha512};

use crate::certificate::public_key_info;
use crate::handshake::{self, KeyVerdict, SHORT_KEY_SCHEMES};
use crate::{TlsError, client_config_builder};

/// What one TLSA record says of a server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsAssociation {
    usage: Usage,
    selector: Selector,
    matching: Matching,
    data: Vec<u8>,
}

/// Certificate usages that SMTP uses (RFC 7672 section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usage {
    /// DANE-TA: an authority that must have issued the certificate.
    Authority,
    /// DANE-EE: the certificate itself. Neither its names nor its dates count (RFC 7672 section 3.1.1).
    EndEntity,
}

/// The part of a certificate that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selector {
    Certificate,
    PublicKey,
}

/// How it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matching {
    Full,
    Sha256,
    Sha512,
}

impl TlsAssociation {
    /// Returns the association of a TLSA record with these fields (RFC 6698 section 2.1); `None` if SMTP cannot use it
    /// (RFC 7672 section 3.1).
    #[must_use]
    pub fn new(usage: u8, selector: u8, matching: u8, data: Vec<u8>) -> Option<Self> {
        let usage = match usage {
            2 => Usage::Authority,
            3 => Usage::EndEntity,
            // The system's authorities, which usages 0 and 1 need, are not those of mail servers (section 3.1.3).
            _ => return None,
        };
        let selector = match selector {
            0 => Selector::Certificate,
            1 => Selector::PublicKey,
            _ => return None,
        };
        let (matching, is_complete) = match matching {
            0 => (Matching::Full, !data.is_empty()),
            1 => (Matching::Sha256, data.len() == 32),
            2 => (Matching::Sha512, data.len() == 64),
            _ => return None,
        };
        is_complete.then_some(Self { usage, selector, matching, data })
    }

    fn matches(&self, certificate: &[u8]) -> bool {
        let selected = match self.selector {
            Selector::Certificate => certificate,
            Selector::PublicKey => match public_key_info(certificate) {
                Some(key) => key,
                None => return false,
            },
        };
        match self.matching {
            Matching::Full => self.data == selected,
            Matching::Sha256 => self.data == Sha256::digest(selected).as_slice(),
            Matching::Sha512 => self.data == Sha512::digest(selected).as_slice(),
        }
    }

    /// Returns whether another record says the same with a stronger digest, so that this one does not count (RFC 7671
    /// section 9).
    fn is_weaker_than(&self, other: &Self) -> bool {
        let kind = |association: &Self| (association.usage, association.selector);
        kind(self) == kind(other) && (self.matching, other.matching) == (Matching::Sha256, Matching::Sha512)
    }
}

/// Returns the configuration of a client that accepts the certificates of these associations only. The certificate of an
/// authority must be for one of `names` (RFC 7672 section 3.2.2).
///
/// # Errors
/// [`TlsError`] if a name is not a host name.
pub fn dane_config(associations: &[TlsAssociation], names: &[&str]) -> Result<Arc<ClientConfig>, TlsError> {
    let (provider, builder) = client_config_builder()?;
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    let verifier = DaneVerifier::new(associations, names, provider, schemes)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// Returns a configuration for a server whose published certificate has an RSA key below 2048 bits; `None` if no record has
/// usage 3. The library verifies the signatures of such a key only as TLS 1.2 has them.
///
/// # Errors
/// As [`dane_config`].
pub fn dane_config_for_short_keys(
    associations: &[TlsAssociation],
    names: &[&str],
) -> Result<Option<Arc<ClientConfig>>, TlsError> {
    let end_entities: Vec<_> = associations.iter().filter(|one| one.usage == Usage::EndEntity).cloned().collect();
    if end_entities.is_empty() {
        return Ok(None);
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS12])
        .map_err(|error| TlsError::new(error.to_string()))?;
    let verifier = DaneVerifier::new(&end_entities, names, provider, SHORT_KEY_SCHEMES.to_vec())?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Some(Arc::new(builder.with_no_client_auth())))
}

#[derive(Debug)]
struct DaneVerifier {
    provider: Arc<CryptoProvider>,
    associations: Vec<TlsAssociation>,
    names: Vec<ServerName<'static>>,
    /// Signatures that the server may use.
    schemes: Vec<SignatureScheme>,
}

impl DaneVerifier {
    fn new(
        associations: &[TlsAssociation],
        names: &[&str],
        provider: Arc<CryptoProvider>,
        schemes: Vec<SignatureScheme>,
    ) -> Result<Self, TlsError> {
        let counts = |one: &&TlsAssociation| !associations.iter().any(|other| one.is_weaker_than(other));
        let associations = associations.iter().filter(counts).cloned().collect();
        let name = |name: &&str| ServerName::try_from((*name).to_owned());
        let names = names.iter().map(name).collect::<Result<_, _>>();
        let names = names.map_err(|_| TlsError::new("the name of the server is not a host name"))?;
        Ok(Self { provider, associations, names, schemes })
    }

    /// Returns whether a record of usage 3 names this certificate. Nothing else of it counts then, so it need not be one
    /// that others accept (RFC 7672 section 3.1.1).
    fn is_published(&self, certificate: &[u8]) -> bool {
        self.of_usage(Usage::EndEntity).any(|association| association.matches(certificate))
    }

    fn verify_by_key(
        &self,
        version: ProtocolVersion,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Option<HandshakeSignatureValid> {
        let verdict = || handshake::verify_by_key(version, message, certificate, signature, &self.provider);
        let is_valid = self.is_published(certificate) && verdict() == KeyVerdict::Valid;
        is_valid.then(HandshakeSignatureValid::assertion)
    }

    fn of_usage(&self, usage: Usage) -> impl Iterator<Item = &TlsAssociation> {
        self.associations.iter().filter(move |association| association.usage == usage)
    }

    /// Returns the authorities among these certificates. A whole certificate in a record need not be sent.
    fn authorities(&self, sent: &[CertificateDer<'_>]) -> RootCertStore {
        let mut authorities = RootCertStore::empty();
        for association in self.of_usage(Usage::Authority) {
            let matching = sent.iter().filter(|certificate| association.matches(certificate));
            // One that cannot be used leaves the others.
            authorities.add_parsable_certificates(matching.map(|certificate| certificate.clone().into_owned()));
            if (association.selector, association.matching) == (Selector::Certificate, Matching::Full) {
                authorities.add_parsable_certificates([CertificateDer::from(association.data.clone())]);
            }
        }
        authorities
    }
}

impl ServerCertVerifier for DaneVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.is_published(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let mut failure = CertificateError::UnknownIssuer.into();
        let authorities = self.authorities(intermediates);
        if authorities.is_empty() {
            return Err(failure);
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(authorities.into(), Arc::clone(&self.provider));
        let verifier = verifier.build().map_err(|error| rustls::Error::General(error.to_string()))?;
        for name in &self.names {
            match verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
            .or_else(|error| self.verify_by_key(ProtocolVersion::TLSv1_2, message, certificate, signature).ok_or(error))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
            .or_else(|error| self.verify_by_key(ProtocolVersion::TLSv1_3, message, certificate, signature).ok_or(error))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PublicKeyData, date_time_ymd};

    use super::*;

    const NAME: &str = "mx.far.example";

    /// An authority, and a certificate by it.
    struct Chain {
        authority: CertificateDer<'static>,
        leaf: CertificateDer<'static>,
    }

    impl Chain {
        fn for_name(name: &str) -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.not_before = date_time_ymd(2026, 1, 1);
            params.not_after = date_time_ymd(2027, 1, 1);
            let leaf = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
            Self { authority: issuer.der().clone(), leaf: leaf.der().clone() }
        }

        /// Returns whether the chain is accepted with these associations, in the middle of 2026.
        fn passes(&self, associations: &[TlsAssociation]) -> bool {
            self.passes_in(associations, 1_780_000_000)
        }

        fn passes_in(&self, associations: &[TlsAssociation], seconds: u64) -> bool {
            let provider = Arc::new(aws_lc_rs::default_provider());
            let name = ServerName::try_from(NAME).unwrap();
            let verifier = DaneVerifier::new(associations, &[NAME], provider, Vec::new()).unwrap();
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
            verifier.verify_server_cert(&self.leaf, std::slice::from_ref(&self.authority), &name, &[], now).is_ok()
        }
    }

    fn association(usage: u8, selector: u8, matching: u8, certificate: &[u8]) -> TlsAssociation {
        let selected = if selector == 0 { certificate } else { public_key_info(certificate).unwrap() };
        let data = match matching {
            0 => selected.to_vec(),
            1 => Sha256::digest(selected).to_vec(),
            _ => Sha512::digest(selected).to_vec(),
        };
        TlsAssociation::new(usage, selector, matching, data).unwrap()
    }

    #[test]
    fn a_matching_certificate_or_its_authority_is_accepted() {
        let (chain, other) = (Chain::for_name(NAME), Chain::for_name(NAME));
        for (selector, matching) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
            let by = |chain: &Chain| {
                [(2, &chain.authority), (3, &chain.leaf)]
                    .map(|(usage, certificate)| association(usage, selector, matching, certificate))
            };
            for (of_chain, of_other) in by(&chain).into_iter().zip(by(&other)) {
                assert!(chain.passes(std::slice::from_ref(&of_chain)), "{of_chain:?}");
                assert!(!chain.passes(std::slice::from_ref(&of_other)), "{of_other:?}");
                assert!(chain.passes(&[of_other, of_chain]), "one record is enough");
            }
        }
        assert!(!chain.passes(&[association(3, 1, 1, &chain.authority)]), "the authority is not the server");
        assert!(!chain.passes(&[association(2, 1, 1, &chain.leaf)]), "the server is not an authority");
        assert!(!chain.passes(&[]));
    }

    #[test]
    fn names_and_dates_count_for_authorities_only() {
        let chain = Chain::for_name("mx.other.example");
        assert!(chain.passes(&[association(3, 1, 1, &chain.leaf)]));
        assert!(!chain.passes(&[association(2, 1, 1, &chain.authority)]));
        let (chain, in_2030) = (Chain::for_name(NAME), 1_900_000_000);
        assert!(chain.passes_in(&[association(3, 1, 1, &chain.leaf)], in_2030));
        assert!(!chain.passes_in(&[association(2, 1, 1, &chain.authority)], in_2030));
    }

    #[test]
    fn records_that_smtp_cannot_use_are_left_out() {
        let digest = vec![0; 32];
        assert!(TlsAssociation::new(3, 1, 1, digest.clone()).is_some());
        for (usage, selector, matching) in [(0, 1, 1), (1, 1, 1), (4, 1, 1), (3, 2, 1), (3, 1, 3), (3, 1, 2)] {
            let association = TlsAssociation::new(usage, selector, matching, digest.clone());
            assert_eq!(association, None, "{usage} {selector} {matching}");
        }
        assert_eq!(TlsAssociation::new(3, 1, 0, Vec::new()), None);
    }

    #[test]
    fn a_weaker_digest_does_not_count() {
        let (chain, other) = (Chain::for_name(NAME), Chain::for_name(NAME));
        let weak = association(3, 1, 1, &chain.leaf);
        let strong = |chain: &Chain| association(3, 1, 2, &chain.leaf);
        assert!(weak.is_weaker_than(&strong(&other)) && !strong(&other).is_weaker_than(&weak));
        let elsewhere = [association(3, 0, 2, &other.leaf), association(2, 1, 2, &other.authority)];
        assert!(elsewhere.iter().all(|other| !weak.is_weaker_than(other)));
    }

    #[test]
    fn the_key_of_a_certificate_is_read() {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
        assert_eq!(public_key_info(certificate.der()).unwrap(), key.subject_public_key_info());
        assert_eq!(public_key_info(b"\x30\x00"), None);
    }
}
