//! DNS look-ups of one check, within its limits.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mailapi_backend::{Dns, DnsError, MailExchange};
use tokio::time::{Instant, timeout_at};

use crate::dns_names::{is_name, plain};

/// Maximum number of names of an `mx` or `ptr` term (RFC 7208 section 4.6.4).
pub(super) const MAX_NAMES: usize = 10;

/// Nothing is known about a name: the DNS did not answer, or the limits are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unanswered;

/// The DNS, for one check of one message.
pub(super) struct Lookups<'a> {
    dns: &'a dyn Dns,
    left: AtomicUsize,
    deadline: Instant,
}

impl<'a> Lookups<'a> {
    /// Allows `count` look-ups within `time`.
    pub(super) fn new(dns: &'a dyn Dns, count: usize, time: Duration) -> Self {
        Self { dns, left: AtomicUsize::new(count), deadline: Instant::now() + time }
    }

    /// Returns the TXT records of a name.
    pub(super) async fn txt(&self, name: &str) -> Result<Vec<String>, Unanswered> {
        self.records(name, self.dns.txt(plain(name))).await
    }

    /// Returns the addresses of a host.
    pub(super) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Unanswered> {
        self.records(name, self.dns.addresses(plain(name))).await
    }

    /// Returns the mail exchanges of a domain.
    pub(super) async fn mx(&self, name: &str) -> Result<Vec<MailExchange>, Unanswered> {
        self.records(name, self.dns.mx(plain(name))).await
    }

    /// Returns the names of an address.
    async fn names_of(&self, address: IpAddr) -> Result<Vec<String>, Unanswered> {
        self.answer(self.dns.names_of(address)).await.map(Option::unwrap_or_default)
    }

    /// Returns the names of an address that lead back to it. A DNS error confirms none (RFC 7208 section 5.5).
    pub(super) async fn confirmed_names(&self, address: IpAddr) -> Vec<String> {
        let mut confirmed = Vec::new();
        let names = self.names_of(address).await.unwrap_or_default();
        for name in names.into_iter().take(MAX_NAMES) {
            let name = plain(&name).to_ascii_lowercase();
            if self.addresses(&name).await.is_ok_and(|found| found.contains(&address)) {
                confirmed.push(name);
            }
        }
        confirmed
    }

    /// Returns whether a name exists, with records of any type.
    pub(super) async fn exists(&self, name: &str) -> Result<bool, Unanswered> {
        Ok(is_name(name) && self.answer(self.dns.addresses(plain(name))).await?.is_some())
    }

    /// Returns the records of a name. A text that is not a name has none: a sender could otherwise turn a failure
    /// into a temporary error with a name that no server can look up.
    async fn records<T>(
        &self,
        name: &str,
        question: impl Future<Output = Result<Vec<T>, DnsError>>,
    ) -> Result<Vec<T>, Unanswered> {
        if !is_name(name) {
            return Ok(Vec::new());
        }
        self.answer(question).await.map(Option::unwrap_or_default)
    }

    /// Returns the answer; `None` if the name does not exist.
    async fn answer<T>(
        &self,
        question: impl Future<Output = Result<Vec<T>, DnsError>>,
    ) -> Result<Option<Vec<T>>, Unanswered> {
        let one_less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).map_err(|_| Unanswered)?;
        match timeout_at(self.deadline, question).await {
            Ok(Ok(records)) => Ok(Some(records)),
            Ok(Err(DnsError::NoSuchName)) => Ok(None),
            Ok(Err(DnsError::Timeout | DnsError::Failed(_))) | Err(_) => Err(Unanswered),
        }
    }
}
