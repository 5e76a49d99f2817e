//! A DNS whose records a test sets.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use async_trait::async_trait;
use mailapi_backend::{
    Dns, DnsError, DnsZone, FoundRecords, MailExchange, Proven, ServiceLocation, TlsaRecords, UpdateError, ZoneDns,
};
use mailapi_model::{RecordData, RecordKind, RecordSet, SetChange, TlsaRecord, TsigKey};

/// Answers with the records set by a test; all other names do not exist.
#[derive(Default)]
pub struct FakeDns(Mutex<Records>);

#[derive(Default)]
struct Records {
    mx: HashMap<String, Vec<MailExchange>>,
    txt: HashMap<String, Vec<String>>,
    addresses: HashMap<String, Vec<IpAddr>>,
    names: HashMap<IpAddr, Vec<String>>,
    services: HashMap<String, Vec<ServiceLocation>>,
    aliases: HashMap<String, String>,
    /// Domains whose MX records are signed.
    signed: Vec<String>,
    /// By host and port.
    tlsa: HashMap<(String, u16), Result<TlsaRecords, DnsError>>,
    /// The TLSA records that name servers of zones have, by their name.
    keys: HashMap<String, Vec<TlsaRecord>>,
    silent: Vec<String>,
    zones: Vec<DnsZone>,
    /// Name servers that do not have the records yet.
    late: Vec<IpAddr>,
    /// The answers to the next updates, and whether each one is applied all the same.
    answers: VecDeque<(Result<(), UpdateError>, bool)>,
    /// The answer to every update.
    refusal: Option<UpdateError>,
}

impl FakeDns {
    /// Sets the mail hosts of `domain`, best first.
    pub fn set_mx(&self, domain: &str, exchanges: &[&str]) {
        let exchange = |(n, host): (usize, &&str)| MailExchange {
            preference: u16::try_from(n + 1).unwrap_or(u16::MAX) * 10,
            exchange: (*host).to_owned(),
        };
        self.0.lock().unwrap().mx.insert(domain.to_owned(), exchanges.iter().enumerate().map(exchange).collect());
    }

    /// Sets the TXT records of `name`.
    pub fn set_txt(&self, name: &str, texts: &[&str]) {
        self.0.lock().unwrap().txt.insert(name.to_owned(), texts.iter().map(ToString::to_string).collect());
    }

    /// Sets the addresses of `host`.
    ///
    /// # Panics
    /// When one is not an IP address.
    pub fn set_addresses(&self, host: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        self.0.lock().unwrap().addresses.insert(host.to_owned(), addresses);
    }

    /// Makes `name` an alias of `target`, which has its addresses already.
    pub fn set_alias(&self, name: &str, target: &str) {
        let mut records = self.0.lock().unwrap();
        let addresses = records.addresses.get(target).cloned().unwrap_or_default();
        records.addresses.insert(name.to_owned(), addresses);
        records.aliases.insert(name.to_owned(), target.to_owned());
    }

    /// Sets the names of `address`.
    ///
    /// # Panics
    /// When it is not an IP address.
    pub fn set_names(&self, address: &str, names: &[&str]) {
        let address = address.parse().expect("an address");
        self.0.lock().unwrap().names.insert(address, names.iter().map(ToString::to_string).collect());
    }

    /// Sets the place of a service such as `_imap._tcp.example.org`.
    pub fn set_srv(&self, name: &str, port: u16, target: &str) {
        let location = ServiceLocation { priority: 0, weight: 1, port, target: target.to_owned() };
        self.0.lock().unwrap().services.insert(name.to_owned(), vec![location]);
    }

    /// Signs the MX records of `domain`.
    pub fn sign_mx(&self, domain: &str) {
        self.0.lock().unwrap().signed.push(domain.to_owned());
    }

    /// Sets the signed TLSA records of the server at a host and port, found at `base`.
    pub fn set_tlsa(&self, host: &str, port: u16, base: &str, records: Vec<TlsaRecord>) {
        let found = TlsaRecords { base: base.to_owned(), records };
        self.0.lock().unwrap().tlsa.insert((host.to_owned(), port), Ok(found));
    }

    /// Sets the TLSA records at a name in its zone.
    pub fn set_keys(&self, name: &str, records: Vec<TlsaRecord>) {
        self.0.lock().unwrap().keys.insert(name.to_owned(), records);
    }

    /// Makes the look-up of TLSA records fail.
    pub fn break_tlsa(&self, host: &str, port: u16) {
        let failure = Err(DnsError::Failed("the DNSSEC signatures are not valid".to_owned()));
        self.0.lock().unwrap().tlsa.insert((host.to_owned(), port), failure);
    }

    /// Makes queries for `name` time out.
    pub fn silence(&self, name: &str) {
        self.0.lock().unwrap().silent.push(name.to_owned());
    }

    /// Adds a zone with these name servers. Any key may update it.
    pub fn set_zone(&self, apex: &str, servers: &[&str]) {
        let servers = servers.iter().map(ToString::to_string).collect();
        self.0.lock().unwrap().zones.push(DnsZone { apex: apex.to_owned(), servers });
    }

    /// Makes the name server at an address answer that no name has records, or no longer.
    ///
    /// # Panics
    /// When it is not an IP address.
    pub fn set_late(&self, server: &str, is_late: bool) {
        let server: IpAddr = server.parse().expect("an address");
        let late = &mut self.0.lock().unwrap().late;
        late.retain(|other| *other != server);
        late.extend(is_late.then_some(server));
    }

    /// Answers one of the next updates like this, after those that were set before; `is_applied` says what happens.
    pub fn answer_update(&self, answer: Result<(), UpdateError>, is_applied: bool) {
        self.0.lock().unwrap().answers.push_back((answer, is_applied));
    }

    /// Refuses every update, or no longer.
    pub fn refuse_key(&self, refusal: Option<UpdateError>) {
        self.0.lock().unwrap().refusal = refusal;
    }

    fn answer<T: Clone>(&self, name: &str, pick: impl Fn(&Records) -> Option<&Vec<T>>) -> Result<Vec<T>, DnsError> {
        let records = self.0.lock().unwrap();
        if records.silent.iter().any(|silent| silent == name) {
            return Err(DnsError::Timeout);
        }
        let exists =
            records.mx.contains_key(name) || records.txt.contains_key(name) || records.addresses.contains_key(name);
        match pick(&records) {
            Some(found) => Ok(found.clone()),
            // The name exists, but has no record of this type.
            None if exists => Ok(Vec::new()),
            None => Err(DnsError::NoSuchName),
        }
    }
}

#[async_trait]
impl Dns for FakeDns {
    async fn mx(&self, domain: &str) -> Result<Vec<MailExchange>, DnsError> {
        self.answer(domain, |records| records.mx.get(domain))
    }

    async fn txt(&self, name: &str) -> Result<Vec<String>, DnsError> {
        self.answer(name, |records| records.txt.get(name))
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        self.answer(host, |records| records.addresses.get(host))
    }

    async fn alias_target(&self, name: &str) -> Result<Option<String>, DnsError> {
        self.addresses(name).await?;
        Ok(self.0.lock().unwrap().aliases.get(name).cloned())
    }

    async fn names_of(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        self.answer(&address.to_string(), |records| records.names.get(&address))
    }

    async fn srv(&self, name: &str) -> Result<Vec<ServiceLocation>, DnsError> {
        self.answer(name, |records| records.services.get(name))
    }

    async fn mx_with_proof(&self, domain: &str) -> Result<Proven<Vec<MailExchange>>, DnsError> {
        let value = self.mx(domain).await?;
        let is_proven = self.0.lock().unwrap().signed.iter().any(|signed| signed == domain);
        Ok(Proven { value, is_proven })
    }

    async fn tlsa(&self, host: &str, port: u16) -> Result<Option<TlsaRecords>, DnsError> {
        let records = self.0.lock().unwrap();
        let of_zone = || {
            let published = records.keys.get(&format!("_{port}._tcp.{host}")).filter(|found| !found.is_empty());
            published.map(|found| TlsaRecords { base: host.to_owned(), records: found.clone() })
        };
        records.tlsa.get(&(host.to_owned(), port)).map_or_else(|| Ok(of_zone()), |found| found.clone().map(Some))
    }
}

#[async_trait]
impl ZoneDns for FakeDns {
    async fn zone_of(&self, name: &str) -> Result<DnsZone, DnsError> {
        let records = self.0.lock().unwrap();
        let is_above = |zone: &&DnsZone| name == zone.apex || name.ends_with(&format!(".{}", zone.apex));
        records.zones.iter().filter(is_above).max_by_key(|zone| zone.apex.len()).cloned().ok_or(DnsError::NoSuchName)
    }

    async fn records_at(&self, server: SocketAddr, name: &str, kind: RecordKind) -> Result<FoundRecords, DnsError> {
        let records = self.0.lock().unwrap();
        if records.late.contains(&server.ip()) {
            return Ok(FoundRecords::default());
        }
        if records.silent.iter().any(|silent| silent == name) {
            return Err(DnsError::Timeout);
        }
        let alias = records.aliases.get(name).cloned().filter(|_| kind != RecordKind::Cname);
        Ok(FoundRecords { set: records.set(name, kind), alias })
    }

    async fn addresses_of(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        self.addresses(host).await
    }

    async fn replace(&self, _: SocketAddr, _: &TsigKey, change: &SetChange) -> Result<(), UpdateError> {
        let mut records = self.0.lock().unwrap();
        let SetChange { name, kind, before, after, .. } = change;
        if let Some(refusal) = &records.refusal {
            return Err(refusal.clone());
        }
        if !records.set(name, *kind).has_records_of(before) {
            return Err(UpdateError::Moved);
        }
        let is_change = !before.has_records_of(after);
        let (answer, is_applied) =
            if is_change { records.answers.pop_front().unwrap_or((Ok(()), true)) } else { (Ok(()), false) };
        if is_applied {
            records.put(name, *kind, &after.records);
        }
        answer
    }
}

impl Records {
    fn set(&self, name: &str, kind: RecordKind) -> RecordSet {
        let of = |host: &str| host.to_owned();
        let records = match kind {
            RecordKind::Cname => {
                self.aliases.get(name).map(|target| RecordData::Cname(of(target))).into_iter().collect()
            }
            RecordKind::Mx => {
                let data = |mx: &MailExchange| RecordData::Mx { preference: mx.preference, exchange: of(&mx.exchange) };
                self.mx.get(name).into_iter().flatten().map(data).collect()
            }
            RecordKind::Srv => {
                let data = |at: &ServiceLocation| RecordData::Srv {
                    priority: at.priority,
                    weight: at.weight,
                    port: at.port,
                    target: of(&at.target),
                };
                self.services.get(name).into_iter().flatten().map(data).collect()
            }
            RecordKind::Tlsa => self.keys.get(name).into_iter().flatten().cloned().map(RecordData::Tlsa).collect(),
            RecordKind::Txt => self.txt.get(name).into_iter().flatten().map(|text| RecordData::text(text)).collect(),
        };
        RecordSet { ttl: 3600, records }
    }

    fn put(&mut self, name: &str, kind: RecordKind, records: &[RecordData]) {
        let name = name.to_owned();
        match kind {
            RecordKind::Cname => self.aliases.remove(&name).map(drop).unwrap_or_default(),
            RecordKind::Mx => self.mx.remove(&name).map(drop).unwrap_or_default(),
            RecordKind::Srv => self.services.remove(&name).map(drop).unwrap_or_default(),
            RecordKind::Tlsa => self.keys.remove(&name).map(drop).unwrap_or_default(),
            RecordKind::Txt => self.txt.remove(&name).map(drop).unwrap_or_default(),
        }
        for data in records.iter().cloned() {
            match data {
                RecordData::Cname(target) => {
                    self.aliases.insert(name.clone(), target);
                }
                RecordData::Mx { preference, exchange } => {
                    self.mx.entry(name.clone()).or_default().push(MailExchange { preference, exchange });
                }
                RecordData::Srv { priority, weight, port, target } => {
                    let location = ServiceLocation { priority, weight, port, target };
                    self.services.entry(name.clone()).or_default().push(location);
                }
                RecordData::Tlsa(record) => self.keys.entry(name.clone()).or_default().push(record),
                text @ RecordData::Txt(_) => {
                    self.txt.entry(name.clone()).or_default().extend(text.joined_text());
                }
            }
        }
    }
}

/// A DNS that never answers.
#[derive(Debug, Clone, Copy)]
pub struct HangingDns;

#[async_trait]
impl Dns for HangingDns {
    async fn mx(&self, _: &str) -> Result<Vec<MailExchange>, DnsError> {
        std::future::pending().await
    }

    async fn txt(&self, _: &str) -> Result<Vec<String>, DnsError> {
        std::future::pending().await
    }

    async fn addresses(&self, _: &str) -> Result<Vec<IpAddr>, DnsError> {
        std::future::pending().await
    }

    async fn names_of(&self, _: IpAddr) -> Result<Vec<String>, DnsError> {
        std::future::pending().await
    }

    async fn srv(&self, _: &str) -> Result<Vec<ServiceLocation>, DnsError> {
        std::future::pending().await
    }
}
