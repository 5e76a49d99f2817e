//! Mail domains and their DKIM keys.

use std::str::FromStr;

use crate::{DomainName, EmailAddress, Secret, Timestamp};

/// One mail domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its name.
    pub name: DomainName,
    /// Whether mail may be sent from it.
    pub active: bool,
    /// Whether it was let in; false for one that was signed up and waits for an admin's approval.
    pub approved: bool,
    /// What its admin wrote about it.
    pub description: Option<String>,
    /// Who signed it up; none when an admin made it.
    pub creator_email: Option<EmailAddress>,
    /// When it was made.
    pub created_at: Timestamp,
    /// How many accounts it has.
    pub user_count: u64,
    /// The selector of its current DKIM key.
    pub dkim_selector: Option<String>,
    /// When its DNS records were last found right.
    pub verified_at: Option<Timestamp>,
}

/// A domain to be stored.
#[derive(Debug, Clone)]
pub struct NewDomain {
    /// Its name.
    pub name: DomainName,
    /// Whether mail may be sent from it at once.
    pub active: bool,
    /// What its admin wrote about it.
    pub description: Option<String>,
    /// Who signed it up.
    pub creator_email: Option<EmailAddress>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// How a DKIM key signs (RFC 6376 section 3.3, RFC 8463).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DkimAlgorithm {
    /// `rsa-sha256` with a key of 2048 bits.
    Rsa2048,
    /// `ed25519-sha256`.
    Ed25519,
}

impl DkimAlgorithm {
    /// The name on the wire and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa-sha256",
            Self::Ed25519 => "ed25519-sha256",
        }
    }

    /// The `k=` tag of the DNS record (RFC 6376 section 3.6.1).
    #[must_use]
    pub const fn key_type(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// A name that is no algorithm of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be rsa-sha256 or ed25519-sha256")]
pub struct UnknownAlgorithm;

impl FromStr for DkimAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Rsa2048, Self::Ed25519].into_iter().find(|a| a.as_str() == text).ok_or(UnknownAlgorithm)
    }
}

/// A DKIM key of a domain.
#[derive(Debug, Clone)]
pub struct DkimKey {
    /// The label in front of `._domainkey.`.
    pub selector: String,
    /// How it signs.
    pub algorithm: DkimAlgorithm,
    /// The private key, PKCS#8 in DER.
    pub private_key: Secret<Vec<u8>>,
    /// The `p=` tag of the DNS record: base64 of the public key.
    pub public_key: String,
    /// When it was made.
    pub created_at: Timestamp,
}

impl DkimKey {
    /// The name of its DNS record.
    #[must_use]
    pub fn dns_name(&self, domain: &DomainName) -> String {
        format!("{}._domainkey.{domain}", self.selector)
    }

    /// The text of its DNS record (RFC 6376 section 3.6.1).
    #[must_use]
    pub fn dns_value(&self) -> String {
        format!("v=DKIM1; k={}; p={}", self.algorithm.key_type(), self.public_key)
    }
}
