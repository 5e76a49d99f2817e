//! The steps of DKIM keys: pending, published, active, retiring, retired.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use mailapi_backend::DnsError;
use mailapi_model::{DkimAlgorithm, DkimKey, DkimState, DomainKey, DomainName, RecordData, RecordKind};
use tokio::time::timeout;

use super::publishing::{DNS_PORT, ServerState, state_of};
use super::verify::{DnsCheck, publishes};
use super::{DomainError, RecordStatus};
use crate::{Caller, Service};

/// Time for which the record of a replaced key must stay. Mail waits in queues for up to five days, and its receivers
/// verify it when it arrives.
const RETIRING: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// Time for the questions to the name servers of a zone. The owner of the domain decides how many there are.
const ASKING: Duration = Duration::from_secs(10);

impl Service {
    /// Takes each key to its next step, as far as DNS and time allow.
    pub(super) async fn step_dkim_keys(&self, name: &DomainName, check: &DnsCheck) -> Result<(), DomainError> {
        for DomainKey { key, steps } in &check.keys {
            let has_stepped = match steps.state() {
                state if state.waits() && is_found(name, key, check) => self.step_found_key(name, key, check).await?,
                DkimState::Retiring if steps.retiring_at.is_some_and(|since| since.plus(RETIRING) <= check.at) => {
                    self.0.store.dkim_keys().retire(name, key, check.at).await?
                }
                _ => false,
            };
            if has_stepped {
                self.changed();
            }
        }
        Ok(())
    }

    /// Lets a key sign whose record was found, unless a name server of the zone does not have it yet.
    async fn step_found_key(&self, name: &DomainName, key: &DkimKey, check: &DnsCheck) -> Result<bool, DomainError> {
        let keys = self.0.store.dkim_keys();
        let is_published = keys.publish(name, key, check.at).await?;
        let is_lacking = timeout(ASKING, self.a_server_lacks(name, key)).await.unwrap_or_default();
        if is_lacking || !keys.activate(name, key, check.at).await? {
            return Ok(is_published);
        }
        tracing::info!(domain = %name, selector = key.selector, "the new DKIM key was found and signs");
        Ok(true)
    }

    /// Whether a name server of the zone answers that it does not have the key. Servers that do not answer are passed over:
    /// receivers could not ask them either.
    async fn a_server_lacks(&self, name: &DomainName, key: &DkimKey) -> bool {
        let (zone_dns, dns_name) = (&self.0.zone_dns, key.dns_name(name));
        let Ok(zone) = zone_dns.zone_of(name.as_str()).await else { return false };
        for server in zone.servers {
            let addresses = zone_dns.addresses_of(&server).await.unwrap_or_default();
            let answers = join_all(addresses.into_iter().map(|address| self.has_key(address, &dns_name, key))).await;
            if state_of(answers).0 == ServerState::Waiting {
                return true;
            }
        }
        false
    }

    async fn has_key(&self, server: IpAddr, dns_name: &str, key: &DkimKey) -> Result<bool, DnsError> {
        let found = self.0.zone_dns.records_at((server, DNS_PORT).into(), dns_name, RecordKind::Txt).await?;
        Ok(found.set.records.iter().filter_map(RecordData::joined_text).any(|text| publishes(&text, key)))
    }

    /// Creates a key for each algorithm whose signing key is older than the operator wants.
    pub(super) async fn rotate_old_keys(&self, name: &DomainName, check: &DnsCheck) -> Result<(), DomainError> {
        let Some(age) = self.0.settings.dkim_rotate_after else { return Ok(()) };
        for algorithm in DkimAlgorithm::ALL {
            let keys = || check.keys.iter().filter(|key| key.key.algorithm == algorithm);
            let is_old = |key: &DomainKey| key.steps.active_at.is_some_and(|since| since.plus(age) <= check.at);
            let is_due = keys().any(|key| key.state() == DkimState::Active && is_old(key));
            if is_due && !keys().any(|key| key.state().waits()) {
                self.rotate_dkim(&Caller::operator(), name, algorithm).await?;
            }
        }
        Ok(())
    }
}

fn is_found(name: &DomainName, key: &DkimKey, check: &DnsCheck) -> bool {
    let dns_name = key.dns_name(name);
    check.records.iter().any(|record| record.name == dns_name && record.status == RecordStatus::Ok)
}
