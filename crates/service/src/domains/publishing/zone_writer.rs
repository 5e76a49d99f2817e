//! Where the records of a zone are read and changed: a name server that takes dynamic updates, or a hosted provider.

use std::net::SocketAddr;

use mailapi_backend::{DnsError, FoundRecords, UpdateError, ZoneDns};
use mailapi_hosted_dns::{AgentProgram, DnsAgent, FailureKind, HostedAccount, HostedError};
use mailapi_model::{ProviderAccount, RecordData, RecordKind, RecordSet, SetChange, TsigKey};
use tokio::sync::Mutex;

use super::PublishError;
use crate::domains::WantedRecord;

/// A place where the records of a zone are read and changed.
pub(super) enum ZoneWriter<'a> {
    /// A name server.
    Server { zone_dns: &'a dyn ZoneDns, address: SocketAddr, key: TsigKey },
    /// A hosted provider. Its program does one job at a time.
    Hosted(Mutex<DnsAgent>),
}

impl ZoneWriter<'_> {
    /// Starts the program for a hosted provider.
    pub(super) async fn hosted(
        program: &AgentProgram,
        account: &ProviderAccount,
        zone: &str,
    ) -> Result<Self, PublishError> {
        let credentials = account.credentials.clone();
        let account = HostedAccount::new(&account.provider, credentials, zone)
            .map_err(|error| UpdateError::Credentials(error.to_string()))?;
        let agent =
            DnsAgent::start(program, account).await.map_err(|error| PublishError::Unanswered(read_error(error)))?;
        Ok(Self::Hosted(Mutex::new(agent)))
    }

    /// Returns the address of the name server.
    pub(super) const fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Server { address, .. } => Some(*address),
            Self::Hosted(_) => None,
        }
    }

    /// Returns the records of a name and type. Only name servers answer from wildcards.
    pub(super) async fn records(&self, name: &str, kind: RecordKind) -> Result<FoundRecords, DnsError> {
        let agent = match self {
            Self::Server { zone_dns, address, .. } => return zone_dns.records_at(*address, name, kind).await,
            Self::Hosted(agent) => agent,
        };
        let mut agent = agent.lock().await;
        let found = agent.list(name, kind).await.map_err(read_error)?;
        // Providers that do not tell the TTL keep their own.
        let set = RecordSet { ttl: found.ttl.unwrap_or(WantedRecord::TTL_SECONDS), records: found.records };
        if kind == RecordKind::Cname || !set.records.is_empty() {
            return Ok(FoundRecords { set, alias: None });
        }
        let aliases = agent.list(name, RecordKind::Cname).await.map_err(read_error)?;
        let alias = aliases.records.into_iter().find_map(|data| match data {
            RecordData::Cname(target) => Some(target),
            _ => None,
        });
        Ok(FoundRecords { set, alias })
    }

    /// Changes records, if they are those that the change expects.
    pub(super) async fn replace(&self, change: &SetChange) -> Result<(), UpdateError> {
        match self {
            Self::Server { zone_dns, address, key } => zone_dns.replace(*address, key, change).await,
            Self::Hosted(agent) => {
                agent.lock().await.replace(change).await.map_err(|error| write_error(error, &change.zone))
            }
        }
    }
}

fn read_error(error: HostedError) -> DnsError {
    match error.kind {
        FailureKind::NotFound => DnsError::NoSuchName,
        _ => DnsError::Failed(error.message),
    }
}

fn write_error(error: HostedError, zone: &str) -> UpdateError {
    let message = error.message;
    match error.kind {
        FailureKind::Moved => UpdateError::Moved,
        FailureKind::Credentials => UpdateError::Credentials(message),
        FailureKind::NotFound => UpdateError::Provider(format!("the account has no zone {zone}")),
        FailureKind::Refused | FailureKind::Limited | FailureKind::Unsupported | FailureKind::Invalid => {
            UpdateError::Provider(message)
        }
        FailureKind::Unanswered => UpdateError::Unanswered(message),
    }
}
