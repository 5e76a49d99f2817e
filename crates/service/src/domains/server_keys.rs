//! The TLSA records of the keys that the mail ports show (RFC 7672), and their rollover (RFC 7671 section 8).

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::DnsError;
use mailapi_model::{KeyDigests, KeyPublication, RecordData, RecordKind, RecordSet, TlsaRecord};
use tokio::time::timeout;

use super::publishing::{DNS_PORT, PublishError};
use crate::{MailPrograms, Service};

/// The port at which other servers deliver mail.
const SMTP_PORT: u16 = 25;

/// Time for the questions to all name servers.
const ASKING: Duration = Duration::from_secs(30);

/// The keys of the certificate that the mail ports show.
pub trait ServerKeys: fmt::Debug + Send + Sync {
    /// Returns the digests of the keys; `None` before the first certificate. Blocks on reads of files.
    fn digests(&self) -> Option<KeyDigests>;
}

/// Returns the mail ports that other machines use.
pub(super) fn mail_ports(programs: MailPrograms) -> Vec<u16> {
    let others = match programs {
        MailPrograms::BuiltIn { submission, submissions, imap, imaps } => [submission, submissions, imap, imaps],
        MailPrograms::Elsewhere => [None; 4],
    };
    std::iter::once(SMTP_PORT).chain(others.into_iter().flatten()).collect()
}

/// Returns the name of the records of a port (RFC 6698 section 3).
pub(super) fn record_name(host: &str, port: u16) -> String {
    format!("_{port}._tcp.{host}")
}

impl Service {
    /// Returns the keys of this server; `None` if its certificate is not one that mailapi ordered.
    pub(super) async fn server_keys(&self) -> Option<KeyDigests> {
        let keys = Arc::clone(self.0.settings.server_keys.as_ref()?);
        tokio::task::spawn_blocking(move || keys.digests()).await.ok().flatten()
    }

    /// Brings the records of the keys up to date, if the operator has published that of the key in use and the domain has a DNS
    /// provider. Returns what the name servers have.
    pub async fn keep_server_keys(&self) -> KeyPublication {
        if self.0.settings.server_keys.is_none() {
            return KeyPublication::Absent;
        }
        let sets = match self.server_key_sets().await {
            Err(DnsError::NoSuchName) => return KeyPublication::Absent,
            Err(_) => return KeyPublication::Open,
            Ok(sets) if sets.iter().all(|set| set.records.is_empty()) => return KeyPublication::Absent,
            Ok(sets) => sets,
        };
        let Some(keys) = self.server_keys().await else { return KeyPublication::Open };
        if sets.iter().any(|set| has(set, keys.current))
            && let Err(error) = self.publish_server_keys().await
        {
            tracing::warn!(%error, "the TLSA records of this server could not be brought up to date");
        }
        let sets = self.server_key_sets().await;
        sets.map_or(KeyPublication::Open, |sets| publication_of(&sets, keys))
    }

    async fn publish_server_keys(&self) -> Result<(), PublishError> {
        match self.provider_above(&self.0.settings.mail_host).await? {
            Some((domain, _)) => self.publish_alone(&domain, "TLSA").await,
            None => Ok(()),
        }
    }

    /// Returns the records at each name and name server. A server that does not answer may have any.
    async fn server_key_sets(&self) -> Result<Vec<RecordSet>, DnsError> {
        timeout(ASKING, self.ask_for_server_keys()).await.unwrap_or(Err(DnsError::Timeout))
    }

    async fn ask_for_server_keys(&self) -> Result<Vec<RecordSet>, DnsError> {
        let (host, programs) = (&self.0.settings.mail_host, self.0.settings.mail_programs);
        let zone = self.0.zone_dns.zone_of(host).await?;
        let mut sets = Vec::new();
        for server in zone.servers {
            for address in self.0.zone_dns.addresses_of(&server).await? {
                for port in mail_ports(programs) {
                    let server = (address, DNS_PORT).into();
                    sets.push(self.records_without_alias(server, &record_name(host, port)).await?);
                }
            }
        }
        Ok(sets)
    }

    async fn records_without_alias(&self, server: SocketAddr, name: &str) -> Result<RecordSet, DnsError> {
        let found = self.0.zone_dns.records_at(server, name, RecordKind::Tlsa).await?;
        match found.alias {
            None => Ok(found.set),
            Some(_) => Err(DnsError::Failed("the name is an alias".to_owned())),
        }
    }
}

/// Judges the answers of all name servers.
fn publication_of(sets: &[RecordSet], keys: KeyDigests) -> KeyPublication {
    if sets.iter().all(|set| set.records.is_empty()) {
        return KeyPublication::Absent;
    }
    let published = sets.iter().filter(|set| !set.records.is_empty());
    match published.clone().all(|set| has(set, keys.current) && has(set, keys.next)) {
        true => KeyPublication::Complete { ttl: published.map(|set| set.ttl).max().unwrap_or_default() },
        false => KeyPublication::Open,
    }
}

fn has(set: &RecordSet, digest: [u8; 32]) -> bool {
    set.records.contains(&RecordData::Tlsa(TlsaRecord::of_key(digest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_published_when_all_servers_have_it() {
        let keys = KeyDigests { current: [1; 32], next: [2; 32], former: None };
        let set = |ttl, digests: &[u8]| RecordSet {
            ttl,
            records: digests.iter().map(|octet| RecordData::Tlsa(TlsaRecord::of_key([*octet; 32]))).collect(),
        };
        let of = |sets: &[RecordSet]| publication_of(sets, keys);
        assert_eq!(of(&[set(0, &[]), set(0, &[])]), KeyPublication::Absent);
        assert_eq!(of(&[set(60, &[2, 1]), set(900, &[1, 2, 3])]), KeyPublication::Complete { ttl: 900 });
        for sets in [[set(60, &[1, 2]), set(60, &[1])], [set(60, &[2]), set(60, &[2])], [set(60, &[3]), set(60, &[3])]]
        {
            assert_eq!(of(&sets), KeyPublication::Open);
        }
    }
}
