//! A DNS whose records a test sets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use async_trait::async_trait;
use mailapi_backend::{Dns, DnsError, MailExchange, Proven, ServiceLocation, TlsaRecord, TlsaRecords};

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
    silent: Vec<String>,
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

    /// Makes the look-up of TLSA records fail.
    pub fn break_tlsa(&self, host: &str, port: u16) {
        let failure = Err(DnsError::Failed("the DNSSEC signatures are not valid".to_owned()));
        self.0.lock().unwrap().tlsa.insert((host.to_owned(), port), failure);
    }

    /// Makes queries for `name` time out.
    pub fn silence(&self, name: &str) {
        self.0.lock().unwrap().silent.push(name.to_owned());
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
        self.0.lock().unwrap().tlsa.get(&(host.to_owned(), port)).cloned().transpose()
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
