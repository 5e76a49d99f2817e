//! Tokens: the values that callers show, and what is kept of them.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::{EmailAddress, Entropy, Timestamp, TokenId};

/// Whose token it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Reaches everything.
    Admin,
    /// Reaches the mailbox it is bound to, and what is delegated to that mailbox.
    User,
}

impl TokenKind {
    /// The name on the wire and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
        }
    }
}

/// A name that is no kind of token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be admin or user")]
pub struct UnknownTokenKind;

impl FromStr for TokenKind {
    type Err = UnknownTokenKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Admin, Self::User].into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownTokenKind)
    }
}

/// The value that a caller shows. It never shows itself; only its hash is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenValue(String);

impl TokenValue {
    /// What the value of an API token begins with.
    pub const API_PREFIX: &str = "mapi_";
    /// What the value of a session token begins with.
    pub const SESSION_PREFIX: &str = "maps_";
    /// Random characters behind the prefix: 43 of 64 kinds hold the 256 bits that are drawn.
    const RANDOM_LENGTH: usize = 43;
    /// How much of a value may be shown, so that its owner recognises it.
    const SHOWN_LENGTH: usize = 12;
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    /// A new API token.
    pub fn random_api(entropy: &dyn Entropy) -> Self {
        Self::random(Self::API_PREFIX, entropy)
    }

    /// A new session token.
    pub fn random_session(entropy: &dyn Entropy) -> Self {
        Self::random(Self::SESSION_PREFIX, entropy)
    }

    fn random(prefix: &str, entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; Self::RANDOM_LENGTH];
        entropy.fill(&mut bytes);
        let letters = bytes.iter().map(|byte| char::from(Self::ALPHABET[usize::from(byte & 63)]));
        Self(prefix.chars().chain(letters).collect())
    }

    /// What a caller has sent. Any text will do: one that was never given out has a hash that is not known.
    #[must_use]
    pub fn from_caller(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The value itself, to be shown once to its owner.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The leading characters by which the owner recognises it.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.0.chars().take(Self::SHOWN_LENGTH).collect()
    }

    /// What is kept of it.
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

/// The SHA-256 of a token's value. With 256 random bits inside, the hash needs no salt and no work factor.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash as it is stored.
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

/// What anybody who may see a token sees of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Its number.
    pub id: TokenId,
    /// The leading characters of its value.
    pub prefix: String,
    /// Whose it is.
    pub kind: TokenKind,
    /// The mailbox it is bound to; none for an admin's API token.
    pub email: Option<EmailAddress>,
    /// What its owner calls it.
    pub name: String,
    /// False once it was revoked, switched off or logged out.
    pub is_active: bool,
    /// Whether a log-in made it.
    pub is_session: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used; written a little later than it happens.
    pub last_used_at: Option<Timestamp>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// A token as the store knows it, with what decides whether it still works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// What may be shown.
    pub record: TokenRecord,
    /// Whether the mailbox it is bound to exists and is enabled; true for a token that is bound to none.
    pub owner_active: bool,
}

/// A token to be stored.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The hash of its value.
    pub hash: TokenHash,
    /// The leading characters of its value.
    pub prefix: String,
    /// Whose it is.
    pub kind: TokenKind,
    /// The mailbox it is bound to.
    pub email: Option<EmailAddress>,
    /// What its owner calls it.
    pub name: String,
    /// Whether a log-in made it.
    pub is_session: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
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
