//! A DNS whose records a test sets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use async_trait::async_trait;
use mailapi_backend::{Dns, DnsError, MailExchange};

/// Answers with the records set by a test; all other names do not exist.
#[derive(Default)]
pub struct FakeDns(Mutex<Records>);

#[derive(Default)]
struct Records {
    mx: HashMap<String, Vec<MailExchange>>,
    txt: HashMap<String, Vec<String>>,
    addresses: HashMap<String, Vec<IpAddr>>,
    names: HashMap<IpAddr, Vec<String>>,
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

    /// Sets the names of `address`.
    ///
    /// # Panics
    /// When it is not an IP address.
    pub fn set_names(&self, address: &str, names: &[&str]) {
        let address = address.parse().expect("an address");
        self.0.lock().unwrap().names.insert(address, names.iter().map(ToString::to_string).collect());
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

    async fn names_of(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        self.answer(&address.to_string(), |records| records.names.get(&address))
    }
}
