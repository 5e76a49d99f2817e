//! Changes of the DNS records of a domain at its name servers.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::{RecordKind, RecordSet, Secret, Timestamp};

/// A change of one set of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetChange {
    /// The zone.
    pub zone: String,
    /// The name of the records, without the final dot.
    pub name: String,
    /// The type of the records.
    pub kind: RecordKind,
    /// The records before; the change fails if there are others.
    pub before: RecordSet,
    /// The records afterwards.
    pub after: RecordSet,
}

/// A key that a name server shares with clients that may change its zones (RFC 8945).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TsigKey {
    /// The name of the key.
    pub name: String,
    /// The algorithm.
    pub algorithm: TsigAlgorithm,
    /// The secret.
    pub secret: Secret<Vec<u8>>,
}

/// The algorithms of TSIG keys that are supported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TsigAlgorithm {
    /// hmac-sha256
    #[default]
    HmacSha256,
    /// hmac-sha384
    HmacSha384,
    /// hmac-sha512
    HmacSha512,
}

impl TsigAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 3] = [Self::HmacSha256, Self::HmacSha384, Self::HmacSha512];

    /// Returns the name, as in the configuration of a name server.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha384 => "hmac-sha384",
            Self::HmacSha512 => "hmac-sha512",
        }
    }
}

/// Who takes changes of a domain's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsProvider {
    /// A name server, by dynamic updates (RFC 2136).
    NameServer(UpdateServer),
    /// A hosted provider, by its API.
    Hosted(ProviderAccount),
}

impl DnsProvider {
    /// The name of the way by dynamic updates.
    pub const DYNAMIC_UPDATES: &str = "rfc2136";

    /// Returns the name on the wire and in the database.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::NameServer(_) => Self::DYNAMIC_UPDATES,
            Self::Hosted(account) => &account.provider,
        }
    }
}

/// A name server that takes changes, and the key for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateServer {
    /// The server: a host or an address, and its port.
    pub server: String,
    /// The key.
    pub key: TsigKey,
}

/// An account at a hosted provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderAccount {
    /// The name of the provider.
    pub provider: String,
    /// The values by the names of their fields: printable ASCII.
    pub credentials: BTreeMap<String, Secret<String>>,
}

/// A change that this server made, or may have made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedChange {
    /// Its number: later changes have higher ones.
    pub id: i64,
    /// The plan that it belongs to.
    pub plan: String,
    /// The change.
    pub change: SetChange,
    /// What became of it.
    pub state: ChangeState,
    /// The time of this state.
    pub at: Timestamp,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeState {
    /// It was sent, and the answer is not known: the next look at the name server decides.
    Pending,
    /// The name server has the records.
    Applied,
    /// The name server has not changed its records.
    Refused,
    /// It was applied, and undone later.
    RolledBack,
}

impl ChangeState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Applied, Self::Refused, Self::RolledBack];

    /// Returns the name on the wire and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// The text names no change state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a state of a change")]
pub struct UnknownChangeState;

impl FromStr for ChangeState {
    type Err = UnknownChangeState;

    fn from_str(text: &str) -> Result<Self, UnknownChangeState> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(UnknownChangeState)
    }
}

impl fmt::Display for TsigAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TsigAlgorithm {
    type Err = UnknownTsigAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownTsigAlgorithm> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str().eq_ignore_ascii_case(text))
            .ok_or(UnknownTsigAlgorithm)
    }
}

/// The text names no supported algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be hmac-sha256, hmac-sha384 or hmac-sha512")]
pub struct UnknownTsigAlgorithm;
