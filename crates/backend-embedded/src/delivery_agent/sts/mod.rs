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
use crate::MessageStore;
use crate::message_store::StoredPolicy;
use fetch::FetchError;
use policy::id_in;
pub(super) use policy::{Mode, Policy};

/// Pause after a failed fetch (RFC 8461 section 3.3 recommends five minutes).
const PAUSE_AFTER_FAILURE: Duration = Duration::from_mins(5);
/// Maximum number of remembered failures.
const MAX_FAILURES: usize = 10_000;

/// Fetches policies. The message store keeps each for as long as it says.
pub(super) struct Sts {
    message_store: MessageStore,
    settings: StsSettings,
    /// The system has many certificate authorities, and most servers send to few domains with a policy.
    verified_tls: OnceLock<Arc<ClientConfig>>,
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

impl Sts {
    pub(super) fn new(message_store: MessageStore, settings: &DeliveryAgentSettings) -> Self {
        let settings = StsSettings {
            trust: settings.trust.clone(),
            port: settings.policy_port,
            allow_loopback: settings.allow_loopback,
        };
        Self { message_store, settings, verified_tls: OnceLock::new(), failed: Mutex::default() }
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
        let known = self.known(domain, now).await;
        let published = dns.txt(&format!("_mta-sts.{domain}")).await.unwrap_or_default();
        let is_current = |known: &StoredPolicy, id: &String| known.record_id == *id && now < known.refresh_at;
        match id_in(&published) {
            None => {}
            Some(id) if known.as_ref().is_some_and(|known| is_current(known, &id)) => {}
            Some(id) => {
                if let Some(policy) = self.fetch(domain, dns, counts, now).await {
                    self.remember(domain, id, &policy, now).await;
                    return Some(policy);
                }
            }
        }
        known.and_then(|known| Policy::parse(known.policy.as_bytes()))
    }

    async fn known(&self, domain: &DomainName, now: Timestamp) -> Option<StoredPolicy> {
        let found = self.message_store.sts_policy(domain, now).await;
        found.inspect_err(|error| tracing::error!(%domain, %error, "an MTA-STS policy could not be read")).ok()?
    }

    async fn remember(&self, domain: &DomainName, record_id: String, policy: &Policy, now: Timestamp) {
        let (refresh_at, expires_at) = (now.plus(policy.max_age / 2), now.plus(policy.max_age));
        let stored = StoredPolicy { record_id, policy: policy.to_text(), refresh_at, expires_at };
        if let Err(error) = self.message_store.put_sts_policy(domain, stored, now).await {
            tracing::error!(%domain, %error, "an MTA-STS policy could not be stored");
        }
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
        self.note_failure(domain, now);
        None
    }

    /// Remembers a failure. If there are too many, those whose pause has ended are dropped, and then none is added.
    fn note_failure(&self, domain: &DomainName, now: Timestamp) {
        let mut failed = self.failed();
        if failed.len() >= MAX_FAILURES && !failed.contains_key(domain.as_str()) {
            failed.retain(|_, again_at| now < *again_at);
        }
        if failed.len() < MAX_FAILURES || failed.contains_key(domain.as_str()) {
            failed.insert(domain.as_str().to_owned(), now.plus(PAUSE_AFTER_FAILURE));
        }
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<String, Timestamp>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
