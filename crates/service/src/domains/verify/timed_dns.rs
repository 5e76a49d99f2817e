//! A DNS with a deadline.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Dns, DnsError, MailExchange, Proven, ServiceLocation, TlsaRecords};
use tokio::time::{Instant, timeout_at};

use crate::dns_names::is_name;

/// Look-ups of one request, which end together.
pub(in crate::domains) struct TimedDns<'a> {
    dns: &'a dyn Dns,
    deadline: Instant,
}

impl<'a> TimedDns<'a> {
    /// Look-ups that end within `time` from now.
    pub(in crate::domains) fn new(dns: &'a dyn Dns, time: Duration) -> Self {
        Self { dns, deadline: Instant::now() + time }
    }

    /// Looks up a name. A text that is not a name does not exist: its look-up would fail each time, and the
    /// check would stay an error.
    async fn of_name<T>(&self, name: &str, answer: impl Future<Output = Result<T, DnsError>>) -> Result<T, DnsError> {
        if is_name(name) { self.in_time(answer).await } else { Err(DnsError::NoSuchName) }
    }

    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, DnsError>>) -> Result<T, DnsError> {
        timeout_at(self.deadline, answer).await.unwrap_or(Err(DnsError::Timeout))
    }
}

#[async_trait]
impl Dns for TimedDns<'_> {
    async fn mx(&self, domain: &str) -> Result<Vec<MailExchange>, DnsError> {
        self.of_name(domain, self.dns.mx(domain)).await
    }

    async fn txt(&self, name: &str) -> Result<Vec<String>, DnsError> {
        self.of_name(name, self.dns.txt(name)).await
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        self.of_name(host, self.dns.addresses(host)).await
    }

    async fn alias_target(&self, name: &str) -> Result<Option<String>, DnsError> {
        self.of_name(name, self.dns.alias_target(name)).await
    }

    async fn names_of(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        self.in_time(self.dns.names_of(address)).await
    }

    async fn srv(&self, name: &str) -> Result<Vec<ServiceLocation>, DnsError> {
        self.of_name(name, self.dns.srv(name)).await
    }

    async fn mx_with_proof(&self, domain: &str) -> Result<Proven<Vec<MailExchange>>, DnsError> {
        self.of_name(domain, self.dns.mx_with_proof(domain)).await
    }

    async fn tlsa(&self, host: &str, port: u16) -> Result<Option<TlsaRecords>, DnsError> {
        self.of_name(host, self.dns.tlsa(host, port)).await
    }
}
