//! The keys of the certificate that mail ports show, by which other servers know them (DANE, RFC 7672).

/// The SHA-256 of the keys, each with its algorithm (`SubjectPublicKeyInfo`, RFC 5280 section 4.1.2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDigests {
    /// The key in use.
    pub current: [u8; 32],
    /// The key of the next certificate. Its record is published long before (RFC 7671 section 8).
    pub next: [u8; 32],
    /// The key that was in use before; its record is removed.
    pub former: Option<[u8; 32]>,
}

/// What DNS has of the server's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPublication {
    /// Neither key: a new certificate may have any.
    Absent,
    /// Every name server has the record of the next key.
    Complete {
        /// Seconds for which caches may keep an older answer.
        ttl: u32,
    },
    /// Only the key in use is safe: the next one is not published everywhere, or a name server does not answer.
    Open,
}
