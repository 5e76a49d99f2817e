//! A domain name system that says what it is told to say.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use async_trait::async_trait;
use mailapi_backend::{Dns, DnsError, MailExchange};

/// Knows only what a test has told it; every other name does not exist.
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
    /// Mail for `domain` goes to these hosts, best first.
    pub fn set_mx(&self, domain: &str, exchanges: &[&str]) {
        let exchange = |(n, host): (usize, &&str)| MailExchange {
            preference: u16::try_from(n + 1).unwrap_or(u16::MAX) * 10,
            exchange: (*host).to_owned(),
        };
        self.0.lock().unwrap().mx.insert(domain.to_owned(), exchanges.iter().enumerate().map(exchange).collect());
    }

    /// These texts stand at `name`.
    pub fn set_txt(&self, name: &str, texts: &[&str]) {
        self.0.lock().unwrap().txt.insert(name.to_owned(), texts.iter().map(ToString::to_string).collect());
    }

    /// `host` has these addresses.
    ///
    /// # Panics
    /// When one is no address.
    pub fn set_addresses(&self, host: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        self.0.lock().unwrap().addresses.insert(host.to_owned(), addresses);
    }

    /// `address` has these names.
    ///
    /// # Panics
    /// When it is no address.
    pub fn set_names(&self, address: &str, names: &[&str]) {
        let address = address.parse().expect("an address");
        self.0.lock().unwrap().names.insert(address, names.iter().map(ToString::to_string).collect());
    }

    /// Questions about `name` are never answered.
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
