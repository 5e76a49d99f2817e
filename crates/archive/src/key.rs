//! Identities of messages in a source.

use sha2::{Digest, Sha256};

/// Identifies a message of a source in later runs: the first bytes of a SHA-256 digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceKey(pub [u8; Self::BYTES]);

impl SourceKey {
    /// Length: two messages of a billion have the same key with a probability below 10⁻²⁰.
    pub const BYTES: usize = 16;

    /// Returns the key of these parts, whose borders count.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        Self::from_digest(digest)
    }

    pub(crate) fn from_digest(digest: Sha256) -> Self {
        let mut key = [0; Self::BYTES];
        key.iter_mut().zip(digest.finalize()).for_each(|(byte, digest)| *byte = digest);
        Self(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_between_parts_count() {
        assert_ne!(SourceKey::of(&[b"ab", b"c"]), SourceKey::of(&[b"a", b"bc"]));
        assert_eq!(SourceKey::of(&[b"ab", b"c"]), SourceKey::of(&[b"ab", b"c"]));
    }
}
