//! Mail domains and their DKIM keys.

use crate::{DomainName, EmailAddress, Secret, Timestamp, named_values};

/// One mail domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The name.
    pub name: DomainName,
    /// Whether it may send mail.
    pub active: bool,
    /// Whether it is approved; false for a domain that was signed up and waits for an admin.
    pub approved: bool,
    /// A description by its admin.
    pub description: Option<String>,
    /// The account that signed it up; `None` if an admin created it.
    pub creator_email: Option<EmailAddress>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Number of accounts.
    pub user_count: u64,
    /// Selector of the DKIM key that signs.
    pub dkim_selector: Option<String>,
    /// When its DNS records were last found correct.
    pub verified_at: Option<Timestamp>,
}

/// A domain to be stored.
#[derive(Debug, Clone)]
pub struct NewDomain {
    /// The name.
    pub name: DomainName,
    /// Whether it may send mail at once.
    pub active: bool,
    /// A description by its admin.
    pub description: Option<String>,
    /// The account that signed it up.
    pub creator_email: Option<EmailAddress>,
    /// When it was created.
    pub created_at: Timestamp,
}

named_values! {
    /// A DKIM signature algorithm (RFC 6376 section 3.3, RFC 8463).
    DkimAlgorithm, UnknownAlgorithm, "must be rsa-sha256 or ed25519-sha256" {
        /// `rsa-sha256` with a key of 2048 bits.
        Rsa2048 = "rsa-sha256",
        /// `ed25519-sha256`.
        Ed25519 = "ed25519-sha256",
    }
}

impl DkimAlgorithm {
    /// Returns the `k=` tag of the DNS record (RFC 6376 section 3.6.1).
    #[must_use]
    pub const fn key_type(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// A DKIM key of a domain.
#[derive(Debug, Clone)]
pub struct DkimKey {
    /// The label before `._domainkey.`.
    pub selector: String,
    /// Its algorithm.
    pub algorithm: DkimAlgorithm,
    /// The private key as PKCS#8 in DER.
    pub private_key: Secret<Vec<u8>>,
    /// The `p=` tag of the DNS record: the public key in base64.
    pub public_key: String,
    /// When it was created.
    pub created_at: Timestamp,
}

impl DkimKey {
    /// Returns the name of its DNS record.
    #[must_use]
    pub fn dns_name(&self, domain: &DomainName) -> String {
        format!("{}._domainkey.{domain}", self.selector)
    }

    /// Returns the text of its DNS record (RFC 6376 section 3.6.1).
    #[must_use]
    pub fn dns_value(&self) -> String {
        format!("v=DKIM1; k={}; p={}", self.algorithm.key_type(), self.public_key)
    }
}

named_values! {
    /// A step in the life of a DKIM key.
    DkimState, UnknownDkimState, "must be pending, published, active, retiring or retired" {
        /// Its record was not found in DNS yet.
        Pending = "pending",
        /// Its record was found, but not at every name server of the zone. It does not sign yet.
        Published = "published",
        /// It signs.
        Active = "active",
        /// A newer key signs. The record must stay: mail with its signatures is under way.
        Retiring = "retiring",
        /// It is erased, and its record can be removed.
        Retired = "retired",
    }
}

impl DkimState {
    /// Returns whether a key waits until it may sign.
    #[must_use]
    pub const fn waits(self) -> bool {
        matches!(self, Self::Pending | Self::Published)
    }
}

/// When a DKIM key reached each step; `None` for steps that it did not reach. The first key of a domain signs at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DkimSteps {
    /// When its record was first found in DNS.
    pub published_at: Option<Timestamp>,
    /// Since when it signs.
    pub active_at: Option<Timestamp>,
    /// When a newer key of its algorithm replaced it.
    pub retiring_at: Option<Timestamp>,
    /// When it was erased.
    pub retired_at: Option<Timestamp>,
}

impl DkimSteps {
    /// Returns the last step.
    #[must_use]
    pub const fn state(&self) -> DkimState {
        match self {
            Self { retired_at: Some(_), .. } => DkimState::Retired,
            Self { retiring_at: Some(_), .. } => DkimState::Retiring,
            Self { active_at: Some(_), .. } => DkimState::Active,
            Self { published_at: Some(_), .. } => DkimState::Published,
            _ => DkimState::Pending,
        }
    }
}

/// A DKIM key of a domain, and its steps. The private key of a retired key is empty.
#[derive(Debug, Clone)]
pub struct DomainKey {
    /// The key.
    pub key: DkimKey,
    /// Its steps.
    pub steps: DkimSteps,
}

impl DomainKey {
    /// Returns the last step.
    #[must_use]
    pub const fn state(&self) -> DkimState {
        self.steps.state()
    }
}
