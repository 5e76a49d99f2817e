//! DKIM keys and signatures (RFC 6376). The types of the cryptographic crates stay in this file.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::KeyPair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mail_auth::common::crypto::{Ed25519Key, RsaKey, Sha256, SigningKey};
use mail_auth::common::headers::HeaderWriter;
use mail_auth::dkim::{Canonicalization, DkimSigner, Done, NeedDomain, Signature};
use mailapi_model::{Blob, DkimAlgorithm, DkimKey, DomainName, Secret, Timestamp};

/// A key could not be generated or used. The text contains nothing of the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("DKIM: {0}")]
pub struct DkimError(String);

impl DkimError {
    fn because(what: &str, why: impl std::fmt::Display) -> Self {
        Self(format!("{what}: {why}"))
    }
}

/// The header fields that are signed once more than they occur, so that the signature breaks if another is added, which
/// readers might show instead of the first (RFC 6376 sections 5.4.1 and 8.15).
const SIGNED_TWICE: [&str; 12] = [
    "From",
    "To",
    "Cc",
    "Subject",
    "Date",
    "Message-ID",
    "Reply-To",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];

/// The header fields that are signed as often as they occur: mailing lists may add their own.
const SIGNED_ONCE: [&str; 2] = ["List-Unsubscribe", "List-Unsubscribe-Post"];

/// Bytes read at once from a message on disk.
const PIECE: usize = 64 * 1024;

/// Generates a key under `selector`. RSA takes about 100 ms of CPU time.
///
/// # Errors
/// [`DkimError`] if the system provides no randomness.
pub(crate) fn generate_key(algorithm: DkimAlgorithm, selector: String, now: Timestamp) -> Result<DkimKey, DkimError> {
    let (private_key, public_key) = match algorithm {
        DkimAlgorithm::Rsa2048 => {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|e| DkimError::because("key", e))?;
            let private = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&pair);
            let private = private.map_err(|e| DkimError::because("key", e))?.as_ref().to_vec();
            let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key());
            (private, STANDARD.encode(public.map_err(|e| DkimError::because("key", e))?.as_ref()))
        }
        DkimAlgorithm::Ed25519 => {
            let private = Ed25519Key::generate_pkcs8().map_err(|e| DkimError::because("key", e))?;
            let pair = Ed25519Key::from_pkcs8_der(&private).map_err(|e| DkimError::because("key", e))?;
            (private, STANDARD.encode(pair.public_key()))
        }
    };
    Ok(DkimKey { selector, algorithm, private_key: Secret::new(private_key), public_key, created_at: now })
}

/// Signs the mail of one domain.
pub struct Signer(Algorithm);

enum Algorithm {
    Rsa(Box<DkimSigner<RsaKey<Sha256>, Done>>),
    Ed25519(Box<DkimSigner<Ed25519Key, Done>>),
}

impl Signer {
    /// Creates a signer with the domain's key.
    ///
    /// # Errors
    /// [`DkimError`] if the stored key is invalid.
    pub fn new(domain: &DomainName, key: &DkimKey) -> Result<Self, DkimError> {
        let unreadable = |error: mail_auth::Error| DkimError::because("stored key", error);
        let der = key.private_key.expose();
        Ok(Self(match key.algorithm {
            DkimAlgorithm::Rsa2048 => {
                let key_der = rustls_pki_types::PrivatePkcs8KeyDer::from(der.as_slice());
                let rsa = RsaKey::<Sha256>::from_key_der(key_der.into()).map_err(unreadable)?;
                Algorithm::Rsa(Box::new(signer(DkimSigner::from_key(rsa), domain, key)))
            }
            DkimAlgorithm::Ed25519 => {
                let ed25519 = Ed25519Key::from_pkcs8_der(der).map_err(unreadable)?;
                Algorithm::Ed25519(Box::new(signer(DkimSigner::from_key(ed25519), domain, key)))
            }
        }))
    }

    /// Creates the DKIM-Signature header, with its line end, to prepend to `message`. Blocks unless the message
    /// is in memory.
    ///
    /// # Errors
    /// [`DkimError`] if signing fails, or the message cannot be read.
    pub(crate) fn header_for(&self, message: &Blob) -> Result<String, DkimError> {
        self.header_in_pieces(message, PIECE)
    }

    fn header_in_pieces(&self, message: &Blob, piece: usize) -> Result<String, DkimError> {
        match &self.0 {
            Algorithm::Rsa(signer) => signature(signer, message, piece),
            Algorithm::Ed25519(signer) => signature(signer, message, piece),
        }
        .map(|signature| unfolded_end(signature.to_header()))
    }
}

/// Moves the last semicolon to the line of the signature. RFC 6376 section 3.5 removes white space after the value
/// of `b=` before hashing the header, but some verifiers do not.
fn unfolded_end(header: String) -> String {
    match header.strip_suffix("\r\n\t;\r\n") {
        Some(rest) => format!("{rest};\r\n"),
        None => header,
    }
}

fn signer<K: SigningKey>(signer: DkimSigner<K, NeedDomain>, domain: &DomainName, key: &DkimKey) -> DkimSigner<K, Done> {
    let signer = signer
        .domain(domain.as_str())
        .selector(&key.selector)
        .headers(SIGNED_TWICE.into_iter().chain(SIGNED_TWICE).chain(SIGNED_ONCE));
    // The relaxed form of mail-auth 0.13.3 keeps trailing blank lines with spaces, contrary to RFC 6376
    // section 3.4.4.
    signer.body_canonicalization(Canonicalization::Simple)
}

fn signature<K: SigningKey>(
    signer: &DkimSigner<K, Done>,
    message: &Blob,
    piece: usize,
) -> Result<Signature, DkimError> {
    let failed = |error| DkimError::because("signature", error);
    if let Some(bytes) = message.in_memory() {
        return signer.sign(bytes).map_err(failed);
    }
    // Headers are collected, and the body is hashed piece by piece.
    let mut signing = signer.sign_streaming();
    for piece in message.pieces(piece) {
        signing.write(&piece.map_err(|error| DkimError::because("message", error))?);
    }
    signing.finish().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use aws_lc_rs::digest::{SHA256, digest};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const MESSAGE: &[u8] = b"From: ann@example.org\r\nTo: bob@example.net\r\nSubject: Hi\r\n\r\nHello\r\n";

    #[test]
    fn a_message_is_signed_with_either_key_and_no_key_leaks() {
        let domain: DomainName = "example.org".parse().unwrap();
        let message = Blob::from(MESSAGE.to_vec());
        for algorithm in [DkimAlgorithm::Rsa2048, DkimAlgorithm::Ed25519] {
            let key = generate_key(algorithm, "m1".into(), Timestamp::from_seconds(0)).unwrap();
            assert!(format!("{key:?}").contains("private_key: Secret(…)"));
            let header = Signer::new(&domain, &key).unwrap().header_for(&message).unwrap();
            assert!(header.starts_with("DKIM-Signature: ") && header.ends_with("\r\n"), "{header}");
            for tag in [format!("a={}", algorithm.as_str()), "d=example.org".into(), "s=m1".into()] {
                assert!(header.contains(&tag), "{header}");
            }
        }
    }

    /// The body hash by RFC 6376 section 3.4.3, encoded as in a signature.
    fn body_hash(body: &str) -> String {
        let mut body = body.trim_end_matches("\r\n").to_owned();
        body.push_str("\r\n");
        STANDARD.encode(digest(&SHA256, body.as_bytes()))
    }

    /// The unfolded value of a tag.
    fn tag(header: &str, name: &str) -> String {
        let header: String = header.split_ascii_whitespace().collect();
        let tags = header.split(';').find_map(|tag| tag.strip_prefix(name)?.strip_prefix('='));
        tags.unwrap_or_else(|| panic!("no {name} in {header}")).to_owned()
    }

    #[test]
    fn no_second_header_can_be_added() {
        for signer in signers() {
            let header = signer.header_for(&Blob::from(MESSAGE.to_vec())).unwrap();
            let signed = tag(&header, "h");
            for signed_twice in ["From", "To", "Subject", "Date", "Reply-To", "Content-Type"] {
                assert_eq!(signed.split(':').filter(|name| *name == signed_twice).count(), 2, "{header}");
            }
        }
    }

    /// Shared keys, since generating them is slow.
    fn signers() -> &'static [Signer; 2] {
        static SIGNERS: OnceLock<[Signer; 2]> = OnceLock::new();
        SIGNERS.get_or_init(|| {
            [DkimAlgorithm::Rsa2048, DkimAlgorithm::Ed25519].map(|algorithm| {
                let key = generate_key(algorithm, "m1".into(), Timestamp::from_seconds(0)).unwrap();
                Signer::new(&"example.org".parse().unwrap(), &key).unwrap()
            })
        })
    }

    /// Signs both until both signatures are from the same second, which they contain.
    fn signed_in_one_second(signer: &Signer, one: &Blob, other: &Blob, piece: usize) -> [String; 2] {
        let second = |header: &String| header.split("t=").nth(1).map(|rest| rest[..10].to_owned());
        loop {
            let signed = [signer.header_for(one).unwrap(), signer.header_in_pieces(other, piece).unwrap()];
            if second(&signed[0]) == second(&signed[1]) {
                return signed;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_body_is_hashed_as_the_signature_says(
            body in prop::collection::vec(select(vec!["a", "\r\n", " ", "\t", "\r\n \r\n", "long enough for words of 8"]), 0..12),
            piece in 1_usize..40,
            other_fields in prop::sample::subsequence([&SIGNED_TWICE[1..], &SIGNED_ONCE].concat(), 0..13),
        ) {
            let body = body.concat();
            let fields: String = other_fields.iter().map(|name| format!("{name}: x\r\n")).collect();
            let message = Blob::from(format!("From: ann@example.org\r\n{fields}\r\n{body}").into_bytes());
            let elsewhere = Blob::joined([message.slice(0..9), message.slice(9..message.len())]);
            for signer in signers() {
                for header in [signer.header_for(&message).unwrap(), signer.header_in_pieces(&elsewhere, piece).unwrap()] {
                    prop_assert!(!header.contains("\t;"), "{}", header);
                    let wanted = ("relaxed/simple".to_owned(), body_hash(&body));
                    prop_assert_eq!((tag(&header, "c"), tag(&header, "bh")), wanted);
                }
            }
        }

        #[test]
        fn a_message_in_a_file_gets_the_same_signature(
            subject in "[ -~]{0,200}(\r\n[ \t][ -~]{1,40})?",
            body in prop::collection::vec(
                prop_oneof![
                    3 => "[a-z0-9]{1,90}".prop_map(String::from),
                    4 => select(vec!["\r\n", "\r\n\r\n", " ", "\t ", " \r\n", "\r\n "]).prop_map(String::from),
                ],
                0..40,
            ),
            (cut, piece) in (0_usize..2000, 1_usize..300),
        ) {
            let head = format!("From: ann@example.org\r\nSubject: {subject}\r\nTo: bob@example.net\r\n");
            let message = Blob::from(format!("{head}\r\n{}", body.concat()).into_bytes());
            let cut = 1 + cut % (message.len() - 1);
            let elsewhere = Blob::joined([message.slice(0..cut), message.slice(cut..message.len())]);
            prop_assert!(elsewhere.in_memory().is_none());
            for signer in signers() {
                let [one, other] = signed_in_one_second(signer, &message, &elsewhere, piece);
                prop_assert_eq!(one, other);
            }
        }
    }
}
