//! Caches whether bounces to an author's domain reach this server.
//!
//! Every attempt for a message of the API needs this, and the answer rarely changes. Without the cache, a
//! failing DNS server would cost every attempt its time-out.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mailapi_backend::{Dns, DnsError};
use mailapi_model::Timestamp;

use super::next_hop::is_host;

/// How long an answer is cached: the usual lifetime of an MX record while an operator moves a domain.
const LIFETIME: Duration = Duration::from_mins(5);
/// How long the DNS is not queried after a failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_mins(1);
/// Maximum number of cached domains.
const MAX_DOMAINS: usize = 10_000;

/// The cached answers by domain.
#[derive(Debug, Default)]
pub(super) struct ReturnHosts(Mutex<HashMap<String, Known>>);

#[derive(Debug, Clone, Copy)]
struct Known {
    comes_here: bool,
    until: Timestamp,
}

impl ReturnHosts {
    /// Returns whether mail for the domain reaches the server with this host name.
    pub(super) async fn comes_to(&self, our_name: &str, domain: &str, dns: &dyn Dns, now: Timestamp) -> bool {
        let known = self.domains().get(domain).copied();
        // The upper limit ignores entries from the future after the clock was set back.
        if let Some(known) = known.filter(|known| now < known.until && known.until <= now.plus(LIFETIME)) {
            return known.comes_here;
        }
        // The lock is not held during the look-up; concurrent look-ups of a domain do no harm.
        let (comes_here, lifetime) = match dns.mx(domain).await {
            Ok(records) => (records.iter().any(|mx| is_host(mx, our_name)), LIFETIME),
            Err(DnsError::NoSuchName) => (false, LIFETIME),
            // After a failure the last answer remains valid.
            Err(DnsError::Timeout | DnsError::Failed(_)) => {
                (known.is_some_and(|known| known.comes_here), PAUSE_AFTER_FAILURE)
            }
        };
        self.note(domain, Known { comes_here, until: now.plus(lifetime) }, now);
        comes_here
    }

    fn note(&self, domain: &str, known: Known, now: Timestamp) {
        let mut domains = self.domains();
        // A full cache drops expired entries first, and then accepts no new ones.
        if domains.len() >= MAX_DOMAINS && !domains.contains_key(domain) {
            domains.retain(|_, known| now < known.until);
        }
        if domains.len() < MAX_DOMAINS || domains.contains_key(domain) {
            domains.insert(domain.to_owned(), known);
        }
    }

    fn domains(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use mailapi_testkit::FakeDns;

    use super::*;

    const OURS: &str = "mx.example.org";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_795_000_000 + seconds)
    }

    #[tokio::test]
    async fn an_answer_counts_for_a_while() {
        let (hosts, dns) = (ReturnHosts::default(), FakeDns::default());
        dns.set_mx("example.org", &["MX.example.org."]);
        assert!(hosts.comes_to(OURS, "example.org", &dns, at(0)).await);
        assert!(!hosts.comes_to(OURS, "example.net", &dns, at(0)).await);
        for domain in ["example.org", "example.net"] {
            dns.set_mx(domain, if domain == "example.org" { &["elsewhere.example"] } else { &[OURS] });
        }
        assert!(hosts.comes_to(OURS, "example.org", &dns, at(299)).await);
        assert!(!hosts.comes_to(OURS, "example.net", &dns, at(299)).await);
        assert!(!hosts.comes_to(OURS, "example.org", &dns, at(300)).await);
        assert!(hosts.comes_to(OURS, "example.net", &dns, at(300)).await);
        // A clock that was set back does not extend the lifetime of an answer.
        dns.set_mx("example.org", &[OURS]);
        assert!(hosts.comes_to(OURS, "example.org", &dns, at(-5000)).await);
    }

    #[tokio::test]
    async fn a_dns_that_is_down_is_asked_once_a_minute() {
        let (hosts, dns) = (ReturnHosts::default(), FakeDns::default());
        dns.set_mx("example.org", &[OURS]);
        assert!(hosts.comes_to(OURS, "example.org", &dns, at(0)).await);
        dns.silence("example.org");
        dns.silence("example.net");
        for second in [400, 401, 1000] {
            assert!(hosts.comes_to(OURS, "example.org", &dns, at(second)).await);
            assert!(!hosts.comes_to(OURS, "example.net", &dns, at(second)).await);
        }
        let counted = CountedDns::default();
        for second in 0..120 {
            hosts.comes_to(OURS, "example.com", &counted, at(second)).await;
        }
        assert_eq!(*counted.0.lock().unwrap(), 2);
    }

    #[tokio::test]
    async fn only_so_many_domains_are_remembered() {
        let (hosts, dns) = (ReturnHosts::default(), FakeDns::default());
        for number in 0..MAX_DOMAINS + 10 {
            hosts.comes_to(OURS, &format!("d{number}.example"), &dns, at(0)).await;
        }
        assert_eq!(hosts.domains().len(), MAX_DOMAINS);
        hosts.comes_to(OURS, "later.example", &dns, at(400)).await;
        assert_eq!(hosts.domains().len(), 1);
    }

    /// Counts the queries and fails each one.
    #[derive(Default)]
    struct CountedDns(Mutex<usize>);

    #[async_trait::async_trait]
    impl Dns for CountedDns {
        async fn mx(&self, _: &str) -> Result<Vec<mailapi_backend::MailExchange>, DnsError> {
            *self.0.lock().unwrap() += 1;
            Err(DnsError::Timeout)
        }

        async fn txt(&self, _: &str) -> Result<Vec<String>, DnsError> {
            Err(DnsError::Timeout)
        }

        async fn addresses(&self, _: &str) -> Result<Vec<std::net::IpAddr>, DnsError> {
            Err(DnsError::Timeout)
        }

        async fn names_of(&self, _: std::net::IpAddr) -> Result<Vec<String>, DnsError> {
            Err(DnsError::Timeout)
        }

        async fn srv(&self, _: &str) -> Result<Vec<mailapi_backend::ServiceLocation>, DnsError> {
            Err(DnsError::Timeout)
        }
    }
}
