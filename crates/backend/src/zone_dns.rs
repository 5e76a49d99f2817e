//! The name servers of a zone: its records as they answer them, and changes.

use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use mailapi_model::{RecordKind, RecordSet, SetChange, TsigKey};

use crate::DnsError;

/// Asks the name servers of zones, without caches between, and changes records there.
#[async_trait]
pub trait ZoneDns: Send + Sync {
    /// Returns the zone that a name is in. The resolver finds it and its servers.
    ///
    /// # Errors
    /// [`DnsError::NoSuchName`] if no zone above the name is found.
    async fn zone_of(&self, name: &str) -> Result<DnsZone, DnsError>;

    /// Returns what a server of the zone answers about a name and type.
    ///
    /// # Errors
    /// [`DnsError::Failed`] also if the server is not responsible for the name. A name that does not exist has no records.
    async fn records_at(&self, server: SocketAddr, name: &str, kind: RecordKind) -> Result<FoundRecords, DnsError>;

    /// Returns the addresses of a host.
    ///
    /// # Errors
    /// As [`crate::Dns::addresses`].
    async fn addresses_of(&self, host: &str) -> Result<Vec<IpAddr>, DnsError>;

    /// Replaces the records of a name and type in one step, by a dynamic update (RFC 2136) that TSIG signs (RFC 8945).
    ///
    /// The server changes nothing unless the current records are those of `before`. A change without difference checks only
    /// that, and that the key may update the zone.
    ///
    /// # Errors
    /// See [`UpdateError`].
    async fn replace(&self, server: SocketAddr, key: &TsigKey, change: &SetChange) -> Result<(), UpdateError>;
}

/// A zone and its name servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsZone {
    /// The highest name, without the final dot.
    pub apex: String,
    /// The name servers (RFC 1035 section 3.3.11), sorted, without the final dot.
    pub servers: Vec<String>,
}

/// What a name server has of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundRecords {
    /// The records of the type.
    pub set: RecordSet,
    /// The host of which the name is an alias. Then other records at the name are ignored.
    pub alias: Option<String>,
}

/// Why a name server did not change records. Nothing of the change is applied, except after
/// [`UpdateError::Unanswered`] and [`UpdateError::NotSigned`], where it is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The records are not those that the change expects.
    #[error("the records have changed meanwhile")]
    Moved,
    /// The server does not know the key, or its secret or algorithm is another one. Some servers also answer this to a key
    /// that may not change the name.
    #[error("the name server does not accept the key: check its name, secret and algorithm, and what it may change")]
    BadKey,
    /// The clocks differ by more than five minutes.
    #[error("the clocks of this machine and of the name server differ by more than five minutes")]
    Clock,
    /// The key may not change these records; some servers also refuse an `MX` record whose host has no address in the zone.
    #[error(
        "the name server refuses the change: the key may not change this name, or, for MX, the host has no address in its zone"
    )]
    Refused,
    /// An answer without signature, which may come from anybody: it refuses the change.
    #[error(
        "the name server refuses the change without a signature: check the key's name and secret, the clock, and whether \
         updates are allowed"
    )]
    RefusedUnsigned,
    /// The server has no such zone, or accepts no updates.
    #[error("the name server does not serve the zone {0}, or accepts no updates of it")]
    NotServed(String),
    /// The hosted provider does not accept the account, or the account may not do this.
    #[error("the provider does not accept the credentials, or they may not change the zone: {0}")]
    Credentials(String),
    /// The hosted provider refuses the change, or limits the number of requests.
    #[error("the provider refuses the change: {0}")]
    Provider(String),
    /// Another answer.
    #[error("the name server answered {0}")]
    Other(String),
    /// An answer that claims success, without a valid signature.
    #[error("the answer of the name server has no valid signature, so it is unknown whether the records changed")]
    NotSigned,
    /// The server or provider did not answer.
    #[error("there was no answer, so it is unknown whether the records changed: {0}")]
    Unanswered(String),
}
