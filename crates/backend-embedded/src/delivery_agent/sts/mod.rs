//! MTA-STS: the policies by which other domains require TLS with a verified certificate (RFC 8461).

mod fetch;
mod policy;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mailapi_backend::Dns;
use mailapi_model::{DomainName, Timestamp};
use mailapi_tls::{TlsError, Trust, client_config};
use rustls::ClientConfig;

use super::DeliveryAgentSettings;
use super::tls_counts::{TlsCounts, TlsResult};
use fetch::FetchError;
use policy::id_in;
pub(super) use policy::{Mode, Policy};

/// Pause after a failed fetch (RFC 8461 section 3.3 recommends five minutes).
const PAUSE_AFTER_FAILURE: Duration = Duration::from_mins(5);
/// Maximum number of remembered domains, and of failures.
const MAX_DOMAINS: usize = 10_000;

/// The policies that were fetched, each for as long as it says.
pub(super) struct Sts {
    settings: StsSettings,
    /// The system has many certificate authorities, and most servers send to few domains with a policy.
    verified_tls: OnceLock<Arc<ClientConfig>>,
    known: Mutex<HashMap<String, Known>>,
    /// When a fetch that failed may be repeated.
    failed: Mutex<HashMap<String, Timestamp>>,
}

/// How policies are fetched, and which certificates are accepted.
#[derive(Debug, Clone)]
struct StsSettings {
    trust: Trust,
    port: u16,
    allow_loopback: bool,
}

#[derive(Debug, Clone)]
struct Known {
    /// The identifier in DNS at the time of the fetch.
    id: String,
    policy: Policy,
    /// When it is fetched again. Otherwise it would expire, and an attacker who then blocks its host would remove it (RFC
    /// 8461 section 3.3).
    refresh_at: Timestamp,
    until: Timestamp,
}

impl Sts {
    pub(super) fn new(settings: &DeliveryAgentSettings) -> Self {
        let settings = StsSettings {
            trust: settings.trust.clone(),
            port: settings.policy_port,
            allow_loopback: settings.allow_loopback,
        };
        Self { settings, verified_tls: OnceLock::new(), known: Mutex::default(), failed: Mutex::default() }
    }

    /// Returns the configuration of connections whose certificate is verified.
    pub(super) fn verified_tls(&self) -> Result<Arc<ClientConfig>, TlsError> {
        if let Some(tls) = self.verified_tls.get() {
            return Ok(Arc::clone(tls));
        }
        let tls = client_config(&self.settings.trust)?;
        Ok(Arc::clone(self.verified_tls.get_or_init(|| tls)))
    }

    /// Returns the policy of a domain. Without an answer of DNS or of the policy's host, a policy that has not expired
    /// remains in force: otherwise an attacker could remove it (RFC 8461 section 5.1).
    pub(super) async fn policy_of(
        &self,
        domain: &DomainName,
        dns: &dyn Dns,
        counts: &TlsCounts,
        now: Timestamp,
    ) -> Option<Policy> {
        let known = self.known().get(domain.as_str()).filter(|known| now < known.until).cloned();
        let published = dns.txt(&format!("_mta-sts.{domain}")).await.unwrap_or_default();
        let is_current = |known: &Known, id: &String| known.id == *id && now < known.refresh_at;
        match id_in(&published) {
            None => {}
            Some(id) if known.as_ref().is_some_and(|known| is_current(known, &id)) => {}
            Some(id) => {
                if let Some(policy) = self.fetch(domain, dns, counts, now).await {
                    let (refresh_at, until) = (now.plus(policy.max_age / 2), now.plus(policy.max_age));
                    self.remember(domain, Known { id, policy: policy.clone(), refresh_at, until }, now);
                    return Some(policy);
                }
            }
        }
        known.map(|known| known.policy)
    }

    async fn fetch(&self, domain: &DomainName, dns: &dyn Dns, counts: &TlsCounts, now: Timestamp) -> Option<Policy> {
        if self.failed().get(domain.as_str()).is_some_and(|again_at| now < *again_at) {
            return None;
        }
        let fetched = match self.verified_tls() {
            Ok(tls) => fetch::fetch(domain, dns, tls, &self.settings).await,
            Err(error) => Err(FetchError::Failed(error.to_string())),
        };
        let parsed = fetched.map(|bytes| Policy::parse(&bytes));
        let (result, reason) = match parsed {
            Ok(Some(policy)) => {
                self.failed().remove(domain.as_str());
                return Some(policy);
            }
            Ok(None) => (TlsResult::PolicyInvalid, "it is not a policy".to_owned()),
            Err(FetchError::NotAuthentic(reason)) => (TlsResult::PolicyNotAuthentic, reason),
            Err(FetchError::Failed(reason)) => (TlsResult::PolicyNotFetched, reason),
        };
        counts.count(result);
        tracing::warn!(%domain, reason, "the MTA-STS policy of a domain could not be fetched");
        insert(&mut self.failed(), domain, now.plus(PAUSE_AFTER_FAILURE), |again_at| now < *again_at);
        None
    }

    fn remember(&self, domain: &DomainName, known: Known, now: Timestamp) {
        insert(&mut self.known(), domain, known, |known| now < known.until);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<String, Timestamp>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Inserts an entry. A full map drops what is no longer needed, and then accepts nothing new.
fn insert<T>(map: &mut HashMap<String, T>, domain: &DomainName, value: T, is_needed: impl Fn(&T) -> bool) {
    if map.len() >= MAX_DOMAINS && !map.contains_key(domain.as_str()) {
        map.retain(|_, value| is_needed(value));
    }
    if map.len() < MAX_DOMAINS || map.contains_key(domain.as_str()) {
        map.insert(domain.as_str().to_owned(), value);
    }
}
