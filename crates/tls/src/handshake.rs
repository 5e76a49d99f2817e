//! The signature of a handshake, verified by the key in the server's certificate and by nothing else of it.
//!
//! webpki reads no certificate of version 1 and none with unknown critical extensions, and accepts no RSA key below 2048
//! bits. Mail servers have all of these.

use std::ops::{Range, RangeInclusive};

use aws_lc_rs::signature::{
    RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, UnparsedPublicKey,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::alg_id::RSA_ENCRYPTION;
use rustls::{DigitallySignedStruct, ProtocolVersion, SignatureScheme};

use crate::certificate::PublicKey;

/// Signatures that can be verified with a short RSA key.
pub(crate) const SHORT_KEY_SCHEMES: [SignatureScheme; 2] =
    [SignatureScheme::RSA_PKCS1_SHA256, SignatureScheme::RSA_PKCS1_SHA512];

/// Octets of the RSA keys with which the library verifies every signature, and of those with [`SHORT_KEY_SCHEMES`] only.
const USUAL_RSA_OCTETS: RangeInclusive<usize> = 2048 / 8..=8192 / 8;
const SHORT_RSA_OCTETS: Range<usize> = 1024 / 8..2048 / 8;

/// What a key says of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyVerdict {
    /// It is by the key.
    Valid,
    /// It is not by the key.
    Invalid,
    /// The certificate has no key that can be read, or an RSA key of a length that the signature does not allow.
    UnusableKey,
}

/// Verifies a signature over `message` by the key in the certificate.
pub(crate) fn verify_by_key(
    version: ProtocolVersion,
    message: &[u8],
    certificate: &[u8],
    signature: &DigitallySignedStruct,
    provider: &CryptoProvider,
) -> KeyVerdict {
    verdict(version, message, certificate, (signature.scheme, signature.signature()), provider)
}

fn verdict(
    version: ProtocolVersion,
    message: &[u8],
    certificate: &[u8],
    (scheme, signature): (SignatureScheme, &[u8]),
    provider: &CryptoProvider,
) -> KeyVerdict {
    // TLS 1.3 has no such signatures (RFC 8446 section 4.2.3).
    if version == ProtocolVersion::TLSv1_3 && is_pkcs1(scheme) {
        return KeyVerdict::Invalid;
    }
    let Some(key) = PublicKey::of(certificate) else { return KeyVerdict::UnusableKey };
    if key.algorithm == RSA_ENCRYPTION.as_ref() {
        let octets = key.rsa_octets().unwrap_or_default();
        if SHORT_RSA_OCTETS.contains(&octets) {
            return verdict_of_short_key(key, message, scheme, signature);
        } else if !USUAL_RSA_OCTETS.contains(&octets) {
            return KeyVerdict::UnusableKey;
        }
    }
    let all = provider.signature_verification_algorithms.mapping;
    let algorithms = all.iter().find(|(one, _)| *one == scheme).map_or(&[][..], |(_, algorithms)| *algorithms);
    // TLS 1.3 names the curve with the scheme, and the first algorithm has that curve.
    let count = if version == ProtocolVersion::TLSv1_3 { 1 } else { algorithms.len() };
    let is_valid = algorithms.iter().take(count).any(|algorithm| {
        algorithm.public_key_alg_id().as_ref() == key.algorithm
            && algorithm.verify_signature(key.bytes, message, signature).is_ok()
    });
    if is_valid { KeyVerdict::Valid } else { KeyVerdict::Invalid }
}

const fn is_pkcs1(scheme: SignatureScheme) -> bool {
    matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA256 | SignatureScheme::RSA_PKCS1_SHA384 | SignatureScheme::RSA_PKCS1_SHA512
    )
}

fn verdict_of_short_key(key: PublicKey<'_>, message: &[u8], scheme: SignatureScheme, signature: &[u8]) -> KeyVerdict {
    let algorithm = match scheme {
        SignatureScheme::RSA_PKCS1_SHA256 => &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        SignatureScheme::RSA_PKCS1_SHA512 => &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        _ => return KeyVerdict::UnusableKey,
    };
    match UnparsedPublicKey::new(algorithm, key.bytes).verify(message, signature) {
        Ok(()) => KeyVerdict::Valid,
        Err(_) => KeyVerdict::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rcgen::{CertificateParams, CustomExtension, KeyPair};
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::{TlsAssociation, Trust, client_config, dane_config, dane_config_for_short_keys};

    const NAME: &str = "mx.far.example";

    /// A certificate of version 1 with an RSA key of 1024 bits, and signatures by the key over `handshake`: PKCS #1 with
    /// SHA-256 and SHA-512, and PSS with SHA-256. OpenSSL 3.0 made them.
    const SHORT: &str = "MIIBtDCCAR0CFD58e6eLOWxIrt5eWasLsiyFVohtMA0GCSqGSIb3DQEBCwUAMBkxFzAVBgNVBAMMDm14LmZhci5leGFtcGxlMB4X\
         DTI2MTEyOTAzMDk0NVoXDTM2MTEyNjAzMDk0NVowGTEXMBUGA1UEAwwObXguZmFyLmV4YW1wbGUwgZ8wDQYJKoZIhvcNAQEBBQAD\
         gY0AMIGJAoGBAMd4DBRZd5Da+vcEFNraoeXFVimZNAgaWgxcJNPVpu7ai51fKfjwqPW2Sx9xrW5QRRMpwcFQqq/EZlCLQ33WcS05\
         3Z5G12eM5CE1a1Hq6QH7OtexoVOcW96KNhSqvJ9Rcew59s7REIhPlj4TVa9v1zxSy6LtfjrzZ4FtCcT7D0npAgMBAAEwDQYJKoZI\
         hvcNAQELBQADgYEARtStMpDEARaMfAxSXKWF2mRuh2xJvvSniGAP88BZC3h+I2S5z5dbGUnWgB+i7Yn6vqsrYdnUSGUxmmzogO32\
         ttqzgDIxBeKCr+bDj8puf3VoGwZWlavaBCtT3d1pefJXGgHL7FnYC+giB7z/DXFO8MuA/xZmEGiXXUoY5u9Oxxw=";
    const BY_SHA256: &str = "CNWbUCkAAwjxC8jZxNh7THH4pvaDFpipK8SYQR867OaNWEn0ZjZowXQNjie/QTnVHxSoro4y9t1N0i27XNA1K3iwJ5eZKQjFSPo6\
         AKyn3CKxDo+FdluO4SxilOTrzDL/zW9uaYqMUrTsxLt0AndEndonIXi7TtGRw1e1mGalglY=";
    const BY_SHA512: &str = "WTzynOfqWsmxRkaLxrcRPPxkG3ZzNs1EG3MGa0ZGEb8F18dk4dCq/niMv8gDRDVVrm0tKtvVpoSqoOtHnSqgQNZKxU5hfVXNFsVn\
         qLb2ymxX5dqPq/hqd6IgO/DsYzJpIzr1goOnEU3rZnkfyG+9doTZk5RE+rqoZtxpPdoy/gw=";
    const BY_PSS: &str = "u2LqUEUfstp44bJi63z6xBuW1LMpHeMZYY53MtxjUcjvRIBxcjnJ/qK+nUEs/HndacCR8LdyNw/eSOVz11SDH6pUA551Ixvz8fn+\
         JMaIf5fBKlCTtf/zxWW4X2G8TsaeLSWBUwK2Xe6xHbW7tVYctfim4nCjuylmP/GHciC1xW8=";

    /// Decodes base64.
    fn octets(base64: &str) -> Vec<u8> {
        let pem = format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n");
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
    }

    fn short_key_says(
        version: ProtocolVersion,
        message: &[u8],
        scheme: SignatureScheme,
        signature: &str,
    ) -> KeyVerdict {
        verdict(version, message, &octets(SHORT), (scheme, &octets(signature)), &aws_lc_rs::default_provider())
    }

    #[test]
    fn a_short_key_verifies_the_older_signatures() {
        let (older, newer) = (ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3);
        let (by_sha256, by_sha512) = (SignatureScheme::RSA_PKCS1_SHA256, SignatureScheme::RSA_PKCS1_SHA512);
        assert_eq!(short_key_says(older, b"another", by_sha256, BY_SHA256), KeyVerdict::Invalid);
        assert_eq!(short_key_says(older, b"handshake", by_sha256, BY_SHA512), KeyVerdict::Invalid);
        assert_eq!(short_key_says(newer, b"handshake", by_sha256, BY_SHA256), KeyVerdict::Invalid, "not in TLS 1.3");
        assert_eq!(
            short_key_says(newer, b"handshake", SignatureScheme::RSA_PSS_SHA256, BY_PSS),
            KeyVerdict::UnusableKey
        );
        assert_eq!(short_key_says(older, b"handshake", by_sha256, BY_SHA256), KeyVerdict::Valid);
        assert_eq!(short_key_says(older, b"handshake", by_sha512, BY_SHA512), KeyVerdict::Valid);
        let nothing = verdict(newer, b"handshake", b"\x30\x00", (by_sha256, b""), &aws_lc_rs::default_provider());
        assert_eq!(nothing, KeyVerdict::Invalid);
    }

    #[test]
    fn a_certificate_without_a_key_has_no_verdict() {
        let scheme = SignatureScheme::ED25519;
        let provider = aws_lc_rs::default_provider();
        assert_eq!(
            verdict(ProtocolVersion::TLSv1_3, b"", b"\x30\x00", (scheme, b""), &provider),
            KeyVerdict::UnusableKey
        );
    }

    /// A server's certificate with its key.
    struct Shown {
        certificate: Vec<u8>,
        key: KeyPair,
    }

    impl Shown {
        /// Has an extension that is critical and that no client knows.
        fn with_unknown_extension() -> Self {
            let mut params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
            let mut unknown = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999, 1], vec![0x05, 0x00]);
            unknown.set_criticality(true);
            params.custom_extensions.push(unknown);
            let key = KeyPair::generate().unwrap();
            Self { certificate: params.self_signed(&key).unwrap().der().to_vec(), key }
        }

        /// Is of version 1, which has neither a version number nor extensions.
        fn of_version_1() -> Self {
            let key = KeyPair::generate().unwrap();
            let newer = CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
            let outer = content(newer.der());
            let (signed, signature) = outer.split_at(whole(outer));
            let body = content(signed);
            let fields = &body[whole(body)..];
            // Serial number, algorithm, issuer, validity, subject and key.
            let end = (0..6).fold(0, |at, _| at + whole(&fields[at..]));
            let signed = sequence(&fields[..end]);
            Self { certificate: sequence(&[signed, signature.to_vec()].concat()), key }
        }

        /// Performs a handshake with a server that shows the certificate.
        fn passes(&self, client: Arc<ClientConfig>) -> Result<(), rustls::Error> {
            let provider = Arc::new(aws_lc_rs::default_provider());
            let key = PrivatePkcs8KeyDer::from(self.key.serialize_der()).into();
            let key = provider.key_provider.load_private_key(key)?;
            let shown = CertifiedKey::new(vec![self.certificate.clone().into()], key);
            let server = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
            let mut server = ServerConnection::new(Arc::new(server))?;
            let mut client = ClientConnection::new(client, ServerName::try_from(NAME).unwrap())?;
            // A handshake has fewer flights.
            for _ in 0..8 {
                let mut flight = Vec::new();
                client.write_tls(&mut flight).unwrap();
                server.read_tls(&mut flight.as_slice()).unwrap();
                server.process_new_packets()?;
                flight.clear();
                server.write_tls(&mut flight).unwrap();
                client.read_tls(&mut flight.as_slice()).unwrap();
                client.process_new_packets()?;
            }
            assert!(!client.is_handshaking() && !server.is_handshaking());
            Ok(())
        }

        fn association(&self, usage: u8) -> TlsAssociation {
            TlsAssociation::new(usage, 0, 1, Sha256::digest(&self.certificate).to_vec()).unwrap()
        }
    }

    /// Returns the length of the first element with its header.
    fn whole(bytes: &[u8]) -> usize {
        let (header, length) = header(bytes);
        header + length
    }

    fn content(bytes: &[u8]) -> &[u8] {
        let (header, length) = header(bytes);
        &bytes[header..header + length]
    }

    /// Returns the octets of the header and of the content.
    fn header(bytes: &[u8]) -> (usize, usize) {
        match bytes[1] {
            short @ 0..=0x7f => (2, usize::from(short)),
            long => {
                let digits = usize::from(long & 0x7f);
                (2 + digits, bytes[2..2 + digits].iter().fold(0, |length, digit| length << 8 | usize::from(*digit)))
            }
        }
    }

    fn sequence(content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[0x30, 0x82], &length[..], content].concat()
    }

    #[test]
    fn certificates_that_webpki_does_not_read_are_not_trusted() {
        let other = Shown::of_version_1();
        for shown in [Shown::of_version_1(), Shown::with_unknown_extension()] {
            assert!(shown.passes(client_config(&Trust::System).unwrap()).is_err());
            let authority = dane_config(&[shown.association(2)], &[NAME]).unwrap();
            assert!(shown.passes(authority).is_err());
            let elsewhere = dane_config(&[other.association(3)], &[NAME]).unwrap();
            assert!(shown.passes(elsewhere).is_err());
        }
    }

    #[test]
    fn any_certificate_encrypts_and_a_published_one_is_verified() {
        for shown in [Shown::of_version_1(), Shown::with_unknown_extension()] {
            assert_eq!(shown.passes(client_config(&Trust::Anybody).unwrap()), Ok(()));
            assert_eq!(shown.passes(dane_config(&[shown.association(3)], &[NAME]).unwrap()), Ok(()));
        }
        let shown = Shown::of_version_1();
        assert!(dane_config_for_short_keys(&[shown.association(2)], &[NAME]).unwrap().is_none());
        assert!(dane_config_for_short_keys(&[shown.association(3)], &[NAME]).unwrap().is_some());
    }

    #[test]
    fn a_server_without_the_key_is_refused() {
        let shown = Shown { key: KeyPair::generate().unwrap(), ..Shown::of_version_1() };
        assert!(shown.passes(client_config(&Trust::Anybody).unwrap()).is_err());
        assert!(shown.passes(dane_config(&[shown.association(3)], &[NAME]).unwrap()).is_err());
    }

    proptest! {
        #[test]
        fn no_damaged_certificate_makes_a_signature_valid(
            at in 0_usize..440,
            octet in any::<u8>(),
            message in "handshak[a-df-z]",
            scheme in prop::sample::select(vec![SignatureScheme::RSA_PKCS1_SHA256, SignatureScheme::RSA_PSS_SHA256, SignatureScheme::ED25519]),
        ) {
            let mut certificate = octets(SHORT);
            let at = at % certificate.len();
            certificate[at] = octet;
            let provider = aws_lc_rs::default_provider();
            for version in [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3] {
                let said = verdict(version, message.as_bytes(), &certificate, (scheme, &octets(BY_SHA256)), &provider);
                prop_assert_ne!(said, KeyVerdict::Valid);
            }
        }
    }
}
