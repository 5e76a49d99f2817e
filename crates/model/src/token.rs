//! Tokens: their values, and the records stored for them.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{EmailAddress, Entropy, Timestamp, TokenId, named_values};

named_values! {
    /// The kind of a token.
    TokenKind, UnknownTokenKind, "must be admin or user" {
        /// Access to everything.
        Admin = "admin",
        /// Access to its mailbox, and to what is delegated to that mailbox.
        User = "user",
    }
}

/// The value of a token. It is never printed; only its hash is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenValue(String);

impl TokenValue {
    /// Prefix of API tokens.
    pub const API_PREFIX: &str = "mapi_";
    /// Prefix of session tokens.
    pub(crate) const SESSION_PREFIX: &str = "maps_";
    /// Random characters after the prefix. 43 characters of 6 bits give 258 random bits.
    const RANDOM_LENGTH: usize = 43;
    /// Number of leading characters that may be shown, so that the owner recognises the token.
    const SHOWN_LENGTH: usize = 12;
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    /// Generates an API token.
    pub fn random_api(entropy: &dyn Entropy) -> Self {
        Self::random(Self::API_PREFIX, entropy)
    }

    /// Generates a session token.
    pub fn random_session(entropy: &dyn Entropy) -> Self {
        Self::random(Self::SESSION_PREFIX, entropy)
    }

    fn random(prefix: &str, entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; Self::RANDOM_LENGTH];
        entropy.fill(&mut bytes);
        // Six bits of each byte select one of 64 characters, which keeps the distribution uniform.
        let letters = bytes.iter().map(|byte| char::from(Self::ALPHABET[usize::from(byte & 63)]));
        Self(prefix.chars().chain(letters).collect())
    }

    /// Accepts any text from a caller: a value that was never issued has an unknown hash.
    #[must_use]
    pub fn from_caller(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the value, to be shown to its owner once.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the leading characters, by which the owner recognises it.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.0.chars().take(Self::SHOWN_LENGTH).collect()
    }

    /// Returns the hash to store.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for TokenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenValue(…)")
    }
}

/// The SHA-256 of a token's value. With at least 256 random bits, the hash needs no salt and no work factor.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Returns the stored form.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// The public data of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// The id.
    pub id: TokenId,
    /// The leading characters of its value.
    pub prefix: String,
    /// The kind.
    pub kind: TokenKind,
    /// The mailbox it is bound to; `None` for an admin's API token.
    pub email: Option<EmailAddress>,
    /// The name given by its owner.
    pub name: String,
    /// False once it was revoked, disabled or logged out.
    pub is_active: bool,
    /// Whether it is a session created by a login.
    pub is_session: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// Time of the last use, written with a short delay.
    pub last_used_at: Option<Timestamp>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// A stored token, with all that decides whether it is usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// The public data.
    pub record: TokenRecord,
    /// Whether its mailbox exists and is enabled; true for a token without a mailbox.
    pub owner_active: bool,
}

/// A token to be stored.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The hash of its value.
    pub hash: TokenHash,
    /// The leading characters of its value.
    pub prefix: String,
    /// The kind.
    pub kind: TokenKind,
    /// The mailbox it is bound to.
    pub email: Option<EmailAddress>,
    /// The name given by its owner.
    pub name: String,
    /// Whether it is a session created by a login.
    pub is_session: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting;
    impl Entropy for Counting {
        fn fill(&self, buffer: &mut [u8]) {
            (0_u8..).zip(buffer).for_each(|(n, byte)| *byte = n);
        }
    }

    #[test]
    fn a_value_has_its_form_and_never_shows_itself() {
        let value = TokenValue::random_api(&Counting);
        assert_eq!(value.expose(), "mapi_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq");
        assert_eq!(value.prefix(), "mapi_ABCDEFG");
        assert_eq!(format!("{value:?} {:?}", value.hash()), "TokenValue(…) TokenHash(…)");
    }
}
