//! App passwords: passwords of single mail programs.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{AppPasswordId, Credentials, EmailAddress, Entropy, SecretText, Timestamp};

/// The value of an app password: four groups of five letters and digits. It is never printed; only a salted hash is
/// stored.
#[derive(Clone, PartialEq, Eq)]
pub struct AppPasswordValue(String);

impl AppPasswordValue {
    /// The alphabet of base32 in lower case (RFC 4648 section 6): no character resembles another one.
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    /// Twenty characters of 5 bits give 100 random bits.
    const CHARACTERS: usize = 20;
    const GROUP: usize = 5;
    /// Length of [`AppPasswordValue::lookup_key`]: 16 bits.
    const KEY_LENGTH: usize = 4;

    /// Generates a value.
    pub fn random(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; Self::CHARACTERS];
        entropy.fill(&mut bytes);
        // Five bits of each byte select one of 32 characters, which keeps the distribution uniform.
        Self::grouped(bytes.iter().map(|byte| char::from(Self::ALPHABET[usize::from(byte & 31)])))
    }

    /// Recognizes a value as people type it: case, spaces and hyphens do not matter. `None` for any other text.
    #[must_use]
    pub fn from_typed(text: &str) -> Option<Self> {
        let typed: Vec<char> = text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        let known = |c: &char| u8::try_from(c.to_ascii_lowercase()).is_ok_and(|byte| Self::ALPHABET.contains(&byte));
        let fits = typed.len() == Self::CHARACTERS && typed.iter().all(known);
        fits.then(|| Self::grouped(typed.iter().map(char::to_ascii_lowercase)))
    }

    fn grouped(characters: impl Iterator<Item = char>) -> Self {
        let mut text = String::with_capacity(Self::CHARACTERS + Self::CHARACTERS / Self::GROUP);
        for (place, character) in characters.enumerate() {
            if place > 0 && place % Self::GROUP == 0 {
                text.push('-');
            }
            text.push(character);
        }
        Self(text)
    }

    /// Returns the value in groups with hyphens, to be shown to its owner once.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the first 16 bits of the value's SHA-256 in hexadecimal. They select one of a mailbox's app passwords
    /// without a look at the others, and reveal next to nothing.
    #[must_use]
    pub fn lookup_key(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        hex[..Self::KEY_LENGTH].to_owned()
    }
}

impl fmt::Debug for AppPasswordValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AppPasswordValue(…)")
    }
}

/// The public data of an app password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppPassword {
    /// The id.
    pub id: AppPasswordId,
    /// The name given by its owner.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Time of the last login with it, written with a short delay.
    pub last_used_at: Option<Timestamp>,
}

/// An app password to be stored.
#[derive(Debug, Clone)]
pub struct NewAppPassword {
    /// The mailbox.
    pub email: EmailAddress,
    /// The name given by its owner.
    pub name: String,
    /// The value's [`AppPasswordValue::lookup_key`]; each one of the mailbox has another.
    pub lookup_key: String,
    /// The hash of its value with the scheme in braces.
    pub hash: SecretText,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A stored app password, with all that decides whether a login with it is allowed.
#[derive(Debug, Clone)]
pub struct StoredAppPassword {
    /// The id.
    pub id: AppPasswordId,
    /// Its mailbox, with the hash of the app password.
    pub credentials: Credentials,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Counting;
    impl Entropy for Counting {
        fn fill(&self, buffer: &mut [u8]) {
            (20_u8..).zip(buffer).for_each(|(n, byte)| *byte = n);
        }
    }

    const VALUE: &str = "uvwxy-z2345-67abc-defgh";

    #[test]
    fn a_value_has_its_form_and_never_shows_itself() {
        let value = AppPasswordValue::random(&Counting);
        assert_eq!(value.expose(), VALUE);
        assert_eq!(format!("{value:?}"), "AppPasswordValue(…)");
    }

    #[test]
    fn the_key_is_the_beginning_of_the_hash() {
        // printf uvwxy-z2345-67abc-defgh | sha256sum
        assert_eq!(AppPasswordValue::random(&Counting).lookup_key(), "cf48");
    }

    #[test]
    fn other_texts_are_no_values() {
        for text in
            ["", "correct horse", "uvwxy-z2345-67abc-defg", "uvwxy-z2345-67abc-defghi", "uvwxy-z2345-67abc-defg1"]
        {
            assert_eq!(AppPasswordValue::from_typed(text), None, "{text}");
        }
        // Lower case of the Kelvin sign is a letter of the alphabet.
        assert_eq!(AppPasswordValue::from_typed("\u{212a}vwxy-z2345-67abc-defgh"), None);
    }

    #[test]
    fn case_spaces_and_hyphens_do_not_matter() {
        for text in [VALUE, "uvwxyz234567abcdefgh", " UVWXY z2345\u{a0}67ABC defgh\t", "u-v-w-x-y-z2345 67abcdefgh-"] {
            assert_eq!(AppPasswordValue::from_typed(text), Some(AppPasswordValue::random(&Counting)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(?s).{0,60}|[a-z2-7 -]{18,30}") {
            if let Some(value) = AppPasswordValue::from_typed(&text) {
                prop_assert_eq!(AppPasswordValue::from_typed(value.expose()), Some(value.clone()));
            }
        }
    }
}
