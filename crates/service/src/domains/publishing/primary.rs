//! The zone of a domain, and the name server or hosted provider that takes its changes.

use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use mailapi_backend::{
    Dns, DnsError, DnsZone, MailExchange, Proven, ServiceLocation, TlsaRecords, UpdateError, ZoneDns,
};
use mailapi_hosted_dns::AgentProgram;
use mailapi_model::{DnsProvider, DomainName, RecordData, RecordKind, RecordSet, SetChange, UpdateServer};

use super::PublishError;
use super::zone_writer::ZoneWriter;
use crate::domains::server_keys::record_name;

/// The port of name servers.
pub(in crate::domains) const DNS_PORT: u16 = 53;

/// The zone of a domain, and where its records are changed.
pub(super) struct Primary<'a> {
    zone_dns: &'a dyn ZoneDns,
    pub(super) zone: DnsZone,
    writer: ZoneWriter<'a>,
}

/// What there is of a name and type, wildcards left out.
pub(super) enum Current {
    Records(RecordSet),
    /// The name is an alias of this host.
    Alias(String),
}

impl<'a> Primary<'a> {
    /// Finds the zone of a domain and its provider.
    pub(super) async fn of(
        zone_dns: &'a dyn ZoneDns,
        program: &AgentProgram,
        domain: &DomainName,
        provider: DnsProvider,
    ) -> Result<Self, PublishError> {
        let zone = zone_dns.zone_of(domain.as_str()).await.map_err(PublishError::NoZone)?;
        let writer = match provider {
            DnsProvider::NameServer(UpdateServer { server, key }) => {
                let address = address_of(zone_dns, &server).await.map_err(PublishError::Unanswered)?;
                ZoneWriter::Server { zone_dns, address, key }
            }
            DnsProvider::Hosted(account) => ZoneWriter::hosted(program, &account, &zone.apex).await?,
        };
        Ok(Self { zone_dns, zone, writer })
    }

    /// Whether a name is in the zone.
    pub(super) fn has(&self, name: &str) -> bool {
        let (name, apex) = (name.trim_end_matches('.').to_ascii_lowercase(), &self.zone.apex);
        name == *apex || name.strip_suffix(apex.as_str()).is_some_and(|labels| labels.ends_with('.'))
    }

    pub(super) async fn records(&self, name: &str, kind: RecordKind) -> Result<RecordSet, DnsError> {
        Ok(self.writer.records(name, kind).await?.set)
    }

    /// Returns the records of a name itself. A wildcard also answers for it, and its records are not in the way of changes.
    pub(super) async fn current(&self, name: &str, kind: RecordKind) -> Result<Current, PublishError> {
        let found = self.writer.records(name, kind).await.map_err(PublishError::Unanswered)?;
        if let Some(target) = found.alias {
            let alias = RecordSet { ttl: 0, records: vec![RecordData::Cname(target.clone())] };
            if self.has_itself(name, RecordKind::Cname, &alias).await? {
                return Ok(Current::Alias(target));
            }
            return Ok(Current::Records(RecordSet::default()));
        }
        let is_own = found.set.records.is_empty() || self.has_itself(name, kind, &found.set).await?;
        Ok(Current::Records(if is_own { found.set } else { RecordSet::default() }))
    }

    /// Returns a type of records beside which no alias can stand (RFC 1034 section 3.6.2), if the name has some.
    pub(super) async fn beside_an_alias(&self, name: &str) -> Result<Option<RecordKind>, PublishError> {
        for kind in RecordKind::ALL.into_iter().filter(|kind| *kind != RecordKind::Cname) {
            if matches!(self.current(name, kind).await?, Current::Records(found) if !found.records.is_empty()) {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    /// Asks by an update that changes nothing. A hosted provider shows the names themselves.
    async fn has_itself(&self, name: &str, kind: RecordKind, set: &RecordSet) -> Result<bool, PublishError> {
        if matches!(self.writer, ZoneWriter::Hosted(_)) {
            return Ok(true);
        }
        match self.replace(&self.change(name, kind, set.clone(), set.clone())).await {
            Ok(()) => Ok(true),
            Err(UpdateError::Moved) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks the key by an update that changes nothing. Of a hosted provider, it shows only that the account may read.
    pub(super) async fn accepts_the_key(&self, domain: &DomainName) -> Result<(), UpdateError> {
        let name = format!("_mailapi-check.{domain}");
        self.replace(&self.change(&name, RecordKind::Txt, RecordSet::default(), RecordSet::default())).await
    }

    pub(super) fn change(&self, name: &str, kind: RecordKind, before: RecordSet, after: RecordSet) -> SetChange {
        SetChange { zone: self.zone.apex.clone(), name: name.to_owned(), kind, before, after }
    }

    pub(super) async fn replace(&self, change: &SetChange) -> Result<(), UpdateError> {
        self.writer.replace(change).await
    }

    /// Returns the addresses of a name server of the zone, each with its port. The server that takes changes may have
    /// another port.
    pub(super) async fn addresses_of(&self, server: &str) -> Result<Vec<SocketAddr>, DnsError> {
        let at = |address: IpAddr| {
            let primary = self.writer.address().filter(|primary| primary.ip() == address);
            primary.unwrap_or(SocketAddr::new(address, DNS_PORT))
        };
        Ok(self.zone_dns.addresses_of(server).await?.into_iter().map(at).collect())
    }
}

async fn address_of(zone_dns: &dyn ZoneDns, server: &str) -> Result<SocketAddr, DnsError> {
    if let Ok(address) = server.parse() {
        return Ok(address);
    }
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, port.parse().unwrap_or(DNS_PORT)),
        _ => (server, DNS_PORT),
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let addresses = zone_dns.addresses_of(host).await?;
    let first = addresses.first().ok_or(DnsError::NoSuchName)?;
    Ok(SocketAddr::new(*first, port))
}

/// Answers from where changes are made for the names of its zone, and from the resolver for all others.
pub(super) struct PrimaryDns<'a> {
    pub(super) primary: &'a Primary<'a>,
    pub(super) resolver: &'a dyn Dns,
}

#[async_trait]
impl Dns for PrimaryDns<'_> {
    async fn mx(&self, domain: &str) -> Result<Vec<MailExchange>, DnsError> {
        if !self.primary.has(domain) {
            return self.resolver.mx(domain).await;
        }
        let pick = |data| match data {
            RecordData::Mx { preference, exchange } => Some(MailExchange { preference, exchange }),
            _ => None,
        };
        Ok(self.primary.records(domain, RecordKind::Mx).await?.records.into_iter().filter_map(pick).collect())
    }

    async fn txt(&self, name: &str) -> Result<Vec<String>, DnsError> {
        if !self.primary.has(name) {
            return self.resolver.txt(name).await;
        }
        let found = self.primary.records(name, RecordKind::Txt).await?;
        Ok(found.records.iter().filter_map(RecordData::joined_text).collect())
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        self.resolver.addresses(host).await
    }

    async fn names_of(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        self.resolver.names_of(address).await
    }

    async fn srv(&self, name: &str) -> Result<Vec<ServiceLocation>, DnsError> {
        if !self.primary.has(name) {
            return self.resolver.srv(name).await;
        }
        let pick = |data| match data {
            RecordData::Srv { priority, weight, port, target } => {
                Some(ServiceLocation { priority, weight, port, target })
            }
            _ => None,
        };
        Ok(self.primary.records(name, RecordKind::Srv).await?.records.into_iter().filter_map(pick).collect())
    }

    async fn alias_target(&self, name: &str) -> Result<Option<String>, DnsError> {
        self.resolver.alias_target(name).await
    }

    /// Only the resolver verifies signatures.
    async fn mx_with_proof(&self, domain: &str) -> Result<Proven<Vec<MailExchange>>, DnsError> {
        self.resolver.mx_with_proof(domain).await
    }

    async fn tlsa(&self, host: &str, port: u16) -> Result<Option<TlsaRecords>, DnsError> {
        let name = record_name(host, port);
        if !self.primary.has(&name) {
            return self.resolver.tlsa(host, port).await;
        }
        let pick = |data| match data {
            RecordData::Tlsa(record) => Some(record),
            _ => None,
        };
        let found = self.primary.records(&name, RecordKind::Tlsa).await?;
        let records: Vec<_> = found.records.into_iter().filter_map(pick).collect();
        Ok((!records.is_empty()).then(|| TlsaRecords { base: host.to_owned(), records }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mailapi_testkit::FakeDns;

    use super::*;

    #[tokio::test]
    async fn a_server_is_named_by_host_or_address_with_or_without_port() {
        let dns = Arc::new(FakeDns::default());
        dns.set_addresses("ns.example.org", &["192.0.2.53"]);
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5353", "192.0.2.1:5353"),
            ("2001:db8::1", "[2001:db8::1]:53"),
            ("[2001:db8::1]:5353", "[2001:db8::1]:5353"),
            ("[2001:db8::1]", "[2001:db8::1]:53"),
            ("ns.example.org", "192.0.2.53:53"),
            ("ns.example.org:5353", "192.0.2.53:5353"),
        ] {
            assert_eq!(address_of(dns.as_ref(), text).await, Ok(address.parse().unwrap()), "{text}");
        }
        assert_eq!(address_of(dns.as_ref(), "nowhere.example.org").await, Err(DnsError::NoSuchName));
    }
}
