//! Records by which a certificate authority checks names (RFC 8555 section 8.4).

use std::time::Duration;

use mailapi_backend::{DnsError, UpdateError};
use mailapi_model::{ChangeState, DnsProvider, DomainName, RecordData, RecordKind, RecordSet, SetChange};
use tokio::time::Instant;

use super::PublishError;
use super::apply::made;
use super::primary::{Current, Primary};
use super::propagation::ServerState;
use crate::{Service, Unavailable};

/// Time until the name servers of a zone have the record. An authority may ask any of them, and an order that fails counts
/// towards its limits.
const UNTIL_SEEN: Duration = Duration::from_secs(120);

/// TTL of the records in seconds: an authority that was here a minute ago must see the new one.
const TTL: u32 = 60;

impl Service {
    /// Returns whether records about all of these hosts can be published: each is in a domain with a DNS provider.
    ///
    /// # Errors
    /// When the account database is unavailable.
    pub async fn can_publish_challenges(&self, hosts: &[String]) -> Result<bool, Unavailable> {
        for host in hosts {
            if self.provider_above(host).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(!hosts.is_empty())
    }

    /// Publishes a text beside others at the name that the authority asks, and waits until the name servers have it.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn publish_challenge(&self, host: &str, text: &str) -> Result<(), PublishError> {
        self.change_challenge(host, text, true).await
    }

    /// Removes the text. Others at the name stay.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn withdraw_challenge(&self, host: &str, text: &str) -> Result<(), PublishError> {
        self.change_challenge(host, text, false).await
    }

    async fn change_challenge(&self, host: &str, text: &str, is_wanted: bool) -> Result<(), PublishError> {
        let (domain, provider) = self.provider_above(host).await?.ok_or(PublishError::NoProvider)?;
        let (name, text) = (format!("_acme-challenge.{host}"), RecordData::text(text));
        let (at, account) = (domain.clone(), provider.clone());
        let changed = self.with_domain_lock(&domain, async move |service: Self| {
            let primary = service.primary_at(&at, account).await?;
            let change = change_of(&primary, &name, text, is_wanted).await?;
            let (state, error) = made(&primary, &change).await;
            tracing::info!(
                record = name,
                is_wanted,
                state = state.as_str(),
                "record for the certificate authority changed"
            );
            match state {
                ChangeState::Applied => Ok(change),
                _ => Err(PublishError::from(UpdateError::Provider(error.unwrap_or_default()))),
            }
        });
        let change = changed.await?;
        if !is_wanted {
            return Ok(());
        }
        // Without the lock, which would delay every other change of the domain.
        let primary = self.primary_at(&domain, provider).await?;
        self.seen_everywhere(&primary, change).await
    }

    /// Waits until no name server of the zone answers without the record. One that does not answer at all cannot be asked by
    /// the authority either.
    async fn seen_everywhere(&self, primary: &Primary<'_>, change: SetChange) -> Result<(), PublishError> {
        let end = Instant::now() + UNTIL_SEEN;
        let change = [change];
        loop {
            let views = self.seen_at_servers(primary, &change).await;
            let Some(late) = views.into_iter().find(|view| view.state == ServerState::Waiting) else { return Ok(()) };
            if Instant::now() >= end {
                let why = format!("{} does not have the new record yet", late.server);
                return Err(PublishError::Unanswered(DnsError::Failed(why)));
            }
        }
    }

    /// Returns the provider of the nearest domain that a host is in.
    pub(in crate::domains) async fn provider_above(
        &self,
        host: &str,
    ) -> Result<Option<(DomainName, DnsProvider)>, Unavailable> {
        let names = std::iter::successors(Some(host), |name| Some(name.split_once('.')?.1));
        for domain in names.filter_map(|name| name.parse::<DomainName>().ok()) {
            if let Some(provider) = self.0.store.dns_providers().get(&domain).await? {
                return Ok(Some((domain, provider)));
            }
        }
        Ok(None)
    }
}

async fn change_of(
    primary: &Primary<'_>,
    name: &str,
    text: RecordData,
    is_wanted: bool,
) -> Result<SetChange, PublishError> {
    let before = match primary.current(name, RecordKind::Txt).await? {
        Current::Records(before) => before,
        Current::Alias(target) => {
            let why = format!("{name} is an alias of {target}, whose records mailapi does not change");
            return Err(UpdateError::Provider(why).into());
        }
    };
    // Texts of others keep their TTL.
    let ttl = if before.records.is_empty() { TTL } else { before.ttl };
    let mut records: Vec<_> = before.records.iter().filter(|data| **data != text).cloned().collect();
    if is_wanted {
        records.push(text);
    }
    let after = RecordSet { ttl, records };
    Ok(primary.change(name, RecordKind::Txt, before, after))
}
