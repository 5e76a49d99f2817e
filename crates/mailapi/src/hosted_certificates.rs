//! Certificates of the pages that this server shows for its domains: one for each domain, ordered when its names lead
//! here.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mailapi_acme::{Acme, AcmeError, AcmeSettings};
use mailapi_model::{Clock, Entropy};
use mailapi_service::Service;
use mailapi_service::domains::HostedPages;
use mailapi_tls::ServerTls;

use crate::dns_challenges::DnsChallenges;

/// Time between two looks at the domains and their names.
const LOOK_EVERY: Duration = Duration::from_secs(10 * 60);
/// Maximum number of orders in that time: Let's Encrypt allows 300 in three hours.
const MOST_ORDERS: u32 = 12;

/// The certificates.
pub(crate) struct HostedCertificates {
    service: Service,
    /// Settings of the listeners' certificate.
    settings: AcmeSettings,
    tls: ServerTls,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// By domain.
    open: BTreeMap<String, Hosted>,
}

struct Hosted {
    hosts: Vec<String>,
    tls: ServerTls,
    acme: Acme,
}

impl HostedCertificates {
    /// `tls` is the certificate of the listeners.
    pub(crate) fn new(
        service: Service,
        settings: AcmeSettings,
        tls: ServerTls,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self { service, settings, tls, clock, entropy, open: BTreeMap::new() }
    }

    /// Orders what is due. Returns how long to wait before the next call.
    pub(crate) async fn step(&mut self) -> Duration {
        // The first order of the listeners' certificate creates the account at the authority.
        if !self.tls.is_ready() {
            return Duration::from_secs(5);
        }
        match self.service.hosted_pages().await {
            Ok(pages) => self.follow(pages),
            Err(error) => {
                tracing::warn!(%error, "the domains could not be read; their certificates are looked at later")
            }
        }
        let (mut pause, mut orders) = (LOOK_EVERY, 0);
        for hosted in self.open.values_mut() {
            let orders_next = hosted.acme.orders_next();
            if orders_next && orders == MOST_ORDERS {
                continue;
            }
            orders += u32::from(orders_next);
            pause = pause.min(hosted.acme.step().await);
        }
        pause.max(pause_after(orders))
    }

    /// Begins with new domains and names, and ends with those that are gone, or that certainly lead elsewhere: an authority
    /// would find them there.
    fn follow(&mut self, pages: Vec<HostedPages>) {
        let kept = pages.iter().filter(|pages| !pages.hosts.is_empty() || !pages.is_certain);
        let kept: HashSet<_> = kept.map(|pages| pages.domain.as_str()).collect();
        for (_, gone) in self.open.extract_if(.., |domain, _| !kept.contains(domain.as_str())) {
            self.tls.forget_hosts(&gone.tls);
        }
        for HostedPages { domain, hosts, is_certain } in pages {
            let open = self.open.get(domain.as_str());
            // After a failed look-up, the names of the certificate in use are the best knowledge.
            let is_other = open.is_none_or(|open| is_certain && open.hosts != hosts);
            if hosts.is_empty() || !is_other {
                continue;
            }
            match self.hosted(domain.as_str(), hosts) {
                Ok(hosted) => drop(self.open.insert(domain.as_str().to_owned(), hosted)),
                Err(error) => tracing::error!(%domain, %error, "the certificate of the domain's pages cannot be used"),
            }
        }
    }

    fn hosted(&self, domain: &str, hosts: Vec<String>) -> Result<Hosted, AcmeError> {
        let settings = AcmeSettings { names: hosts.clone(), domain: Some(domain.to_owned()), ..self.settings.clone() };
        let tls = self.tls.for_hosts(&hosts, self.open.get(domain).map(|open| &open.tls));
        let acme = Acme::open(settings, tls.clone(), Arc::clone(&self.clock), Arc::clone(&self.entropy))?;
        let acme = acme.with_records(Arc::new(DnsChallenges(self.service.clone())));
        Ok(Hosted { hosts, tls, acme })
    }
}

/// Returns how long to wait after this number of orders. The next call follows a second after an order, so a limit of
/// orders for each call would not limit them.
fn pause_after(orders: u32) -> Duration {
    LOOK_EVERY * orders / MOST_ORDERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_gets_few_orders_in_three_hours() {
        let in_three_hours = |at_once: u32| u64::from(at_once) * (3 * 60 * 60 / pause_after(at_once).as_secs());
        assert!((1..=MOST_ORDERS).all(|at_once| (200..300).contains(&in_three_hours(at_once))));
        assert_eq!(pause_after(0), Duration::ZERO);
    }
}
