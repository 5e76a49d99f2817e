//! Keys and signatures.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mailapi_model::{Entropy, Secret, Timestamp, WebhookSigning};

/// Prefix of a symmetric secret in text form.
const SECRET_PREFIX: &str = "whsec_";
/// Prefix of a public key in text form.
const PUBLIC_PREFIX: &str = "whpk_";
/// Bytes of a generated symmetric secret, and the limits of a given one.
const SECRET_BYTES: usize = 32;
const FEWEST_SECRET_BYTES: usize = 24;
const MOST_SECRET_BYTES: usize = 64;
/// Bytes of the seed of an Ed25519 key (RFC 8032 section 5.1.5).
const SEED_BYTES: usize = 32;

/// The text is not a valid secret for `v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be `whsec_` and 24 to 64 bytes in base64")]
pub struct KeyError;

/// The key that signs the messages to one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    signing: WebhookSigning,
    /// The secret of `v1`, or the seed of the Ed25519 key of `v1a`.
    bytes: Secret<Vec<u8>>,
}

impl SigningKey {
    /// Generates a key.
    #[must_use]
    pub fn generate(signing: WebhookSigning, entropy: &dyn Entropy) -> Self {
        let mut bytes = vec![0; if signing == WebhookSigning::V1 { SECRET_BYTES } else { SEED_BYTES }];
        entropy.fill(&mut bytes);
        Self { signing, bytes: Secret::new(bytes) }
    }

    /// Reads a secret for `v1` that the owner of the endpoint chose: `whsec_` and base64.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn parse_secret(text: &str) -> Result<Self, KeyError> {
        let encoded = text.strip_prefix(SECRET_PREFIX).ok_or(KeyError)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| KeyError)?;
        Self::from_bytes(WebhookSigning::V1, Secret::new(bytes))
    }

    /// Returns the key with these bytes, which [`SigningKey::bytes`] returned.
    ///
    /// # Errors
    /// [`KeyError`] if their number is wrong.
    pub fn from_bytes(signing: WebhookSigning, bytes: Secret<Vec<u8>>) -> Result<Self, KeyError> {
        let allowed = match signing {
            WebhookSigning::V1 => FEWEST_SECRET_BYTES..=MOST_SECRET_BYTES,
            WebhookSigning::V1a => SEED_BYTES..=SEED_BYTES,
        };
        if allowed.contains(&bytes.expose().len()) { Ok(Self { signing, bytes }) } else { Err(KeyError) }
    }

    /// Returns how the key signs.
    #[must_use]
    pub const fn signing(&self) -> WebhookSigning {
        self.signing
    }

    /// Returns the bytes to store.
    #[must_use]
    pub const fn bytes(&self) -> &Secret<Vec<u8>> {
        &self.bytes
    }

    /// Returns the secret for the receiver, `whsec_…`; `None` for `v1a`, whose receiver needs no secret.
    #[must_use]
    pub fn secret(&self) -> Option<Secret<String>> {
        let text = || Secret::new(format!("{SECRET_PREFIX}{}", STANDARD.encode(self.bytes.expose())));
        (self.signing == WebhookSigning::V1).then(text)
    }

    /// Returns the public key for the receiver, `whpk_…`; `None` for `v1`.
    #[must_use]
    pub fn public_key(&self) -> Option<String> {
        let pair = self.pair()?;
        Some(format!("{PUBLIC_PREFIX}{}", STANDARD.encode(pair.public_key().as_ref())))
    }

    /// Returns the signature of a message, such as `v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=`.
    #[must_use]
    pub fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> String {
        let head = format!("{id}.{}.", at.as_seconds());
        let signature = match self.pair() {
            Some(pair) => STANDARD.encode(pair.sign(&[head.as_bytes(), body].concat())),
            None => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.bytes.expose());
                let mut context = hmac::Context::with_key(&key);
                context.update(head.as_bytes());
                context.update(body);
                STANDARD.encode(context.sign())
            }
        };
        format!("{},{signature}", self.signing)
    }

    fn pair(&self) -> Option<Ed25519KeyPair> {
        let seed = (self.signing == WebhookSigning::V1a).then(|| self.bytes.expose())?;
        Ed25519KeyPair::from_seed_unchecked(seed).ok()
    }
}

/// Returns the value of `webhook-signature`: one signature for each key, separated by spaces.
#[must_use]
pub fn signatures<'a>(keys: impl IntoIterator<Item = &'a SigningKey>, id: &str, at: Timestamp, body: &[u8]) -> String {
    keys.into_iter().map(|key| key.sign(id, at, body)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
    use proptest::prelude::*;

    use super::*;

    struct Counting;

    impl Entropy for Counting {
        fn fill(&self, buffer: &mut [u8]) {
            (0_u8..).zip(buffer).for_each(|(number, byte)| *byte = number);
        }
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        let of_bytes = |count: usize| format!("whsec_{}", STANDARD.encode(vec![7; count]));
        for text in ["", "whsec_", "whsec_%%%", "secret", &of_bytes(23), &of_bytes(65), &of_bytes(32)[6..]] {
            assert_eq!(SigningKey::parse_secret(text), Err(KeyError), "{text}");
        }
        for count in [24, 32, 64] {
            let text = of_bytes(count);
            assert_eq!(SigningKey::parse_secret(&text).unwrap().secret().unwrap().expose(), &text);
        }
        assert_eq!(SigningKey::from_bytes(WebhookSigning::V1a, Secret::new(vec![7; 31])), Err(KeyError));
    }

    #[test]
    fn a_signature_is_the_one_that_receivers_compute() {
        // Computed with `openssl dgst -sha256 -mac HMAC`.
        let key = SigningKey::from_bytes(WebhookSigning::V1, Secret::new((0..32).collect())).unwrap();
        let signature = key.sign("evt_1", Timestamp::from_seconds(1_700_000_000), b"{\"test\":1}");
        assert_eq!(signature, "v1,QPGBnr/wZ8iUTFXuz+8h2Y5xKJv7Z4SMnCYUfShmmfg=");
    }

    #[test]
    fn the_public_key_verifies_the_signature() {
        let key = SigningKey::generate(WebhookSigning::V1a, &Counting);
        assert!(key.secret().is_none() && SigningKey::generate(WebhookSigning::V1, &Counting).public_key().is_none());
        let public = STANDARD.decode(key.public_key().unwrap().strip_prefix("whpk_").unwrap()).unwrap();
        let signature = key.sign("evt_1", Timestamp::from_seconds(7), b"body");
        let signature = STANDARD.decode(signature.strip_prefix("v1a,").unwrap()).unwrap();
        let public = UnparsedPublicKey::new(&ED25519, public);
        assert!(public.verify(b"evt_1.7.body", &signature).is_ok());
        assert!(public.verify(b"evt_1.8.body", &signature).is_err());
    }

    #[test]
    fn no_form_of_a_key_shows_it() {
        let key = SigningKey::generate(WebhookSigning::V1, &Counting);
        let shown = format!("{key:?} {:?}", key.secret());
        assert!(!shown.contains("AAEC") && !shown.contains("1, 2"), "{shown}");
    }

    proptest! {
        #[test]
        fn any_text_is_a_secret_or_refused(text in "(whsec_)?[A-Za-z0-9+/=]{0,100}") {
            if let Ok(key) = SigningKey::parse_secret(&text) {
                let secret = key.secret().unwrap();
                prop_assert_eq!(secret.expose(), &text);
            }
        }

        #[test]
        fn every_byte_of_a_message_counts(body in prop::collection::vec(any::<u8>(), 1..50), at in 0_usize..50, flip in 1_u8..) {
            let mut other = body.clone();
            other[at % body.len()] ^= flip;
            for signing in WebhookSigning::ALL {
                let key = SigningKey::generate(signing, &Counting);
                let sign = |body: &[u8]| key.sign("evt_1", Timestamp::from_seconds(7), body);
                prop_assert_ne!(sign(&body), sign(&other));
            }
        }
    }
}
