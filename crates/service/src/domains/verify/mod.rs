//! `GET /domains/{domain}/verify`: checks the DNS records that other servers need to exchange mail with a domain.

mod advice;
mod dkim;
mod dmarc;
pub(super) mod hosting;
mod mx;
pub(super) mod programs;
mod spf;
mod spf_grammar;
mod spf_walk;
mod tags;
mod timed_dns;
pub(super) mod tlsa;

pub(super) use advice::ptr as check_pointers;
pub(super) use dkim::publishes;
pub(super) use dmarc::AppliedPolicy;
pub(super) use spf::{extended as extended_spf, is_policy as is_spf};
pub(crate) use spf_grammar::decisive as decisive_spf;
pub(super) use spf_walk::StrangerResult;

use std::net::IpAddr;
use std::time::Duration;

use mailapi_backend::{Dns, DnsError};
use mailapi_events::BrokenRecord;
use mailapi_model::{DkimState, DomainKey, DomainName, Timestamp};

use super::DomainError;
use crate::{Caller, Service, is_local_name};
pub(super) use timed_dns::TimedDns;

/// Time limit for all look-ups of one request. The owner of a domain decides how many look-ups its policies need, and
/// how fast its name servers are.
pub(super) const TIME: Duration = Duration::from_secs(20);

/// The result of a check of a domain's DNS records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsReport {
    /// The domain.
    pub domain: DomainName,
    /// Whether all required records are right.
    pub verified: bool,
    /// The time of the check.
    pub checked_at: Timestamp,
    /// The result for each record.
    pub records: Vec<RecordCheck>,
}

/// The result for one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordCheck {
    /// The kind: `MX`, `SPF`, `DKIM`, `DMARC`, `MTA-STS`, `TLS-RPT`, `TLSA`, `PTR`.
    pub kind: &'static str,
    /// The record's name in DNS.
    pub name: String,
    /// The expected value.
    pub expected: String,
    /// The published values.
    pub found: Vec<String>,
    /// Whether they are right.
    pub status: RecordStatus,
    /// Whether mail suffers without the record; other records are recommended only.
    pub required: bool,
    /// The action to take, or the reason why a differing value is right.
    pub hint: String,
}

/// Whether a record is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordStatus {
    /// The record is right.
    Ok,
    /// There is no such record.
    Missing,
    /// The record differs from the expected one.
    Mismatch,
    /// A record without a fault is there, but nothing shows whether it has the right effect.
    Undecided,
    /// A look-up failed, or there are too many hosts to look up.
    Error,
}

impl RecordStatus {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            // The hint says what remains open; the API has no word for it here.
            Self::Ok | Self::Undecided => "ok",
            Self::Missing => "missing",
            Self::Mismatch => "mismatch",
            Self::Error => "error",
        }
    }

    /// Whether a domain with this result is verified.
    const fn is_accepted(self) -> bool {
        matches!(self, Self::Ok | Self::Undecided)
    }
}

/// Maximum number of hosts to look up for one set of records; its owner decides how many there are.
const MAX_HOSTS: usize = 10;

/// Why it is open whether a host is this server.
enum Unsure {
    Dns(DnsError),
    /// There are more than [`MAX_HOSTS`].
    TooManyHosts,
}

/// Data shared by all checks.
pub(super) struct Context<'a> {
    dns: &'a dyn Dns,
    domain: &'a DomainName,
    /// The name of the mail server.
    host: &'a str,
    /// The addresses of the mail server, from which mail is sent; empty if it has none in DNS.
    addresses: Result<Vec<IpAddr>, DnsError>,
}

impl<'a> Context<'a> {
    pub(super) async fn new(dns: &'a dyn Dns, domain: &'a DomainName, host: &'a str) -> Self {
        let addresses = match is_local_name(host) {
            // A local name resolves to addresses such as 127.0.0.1, from which no mail is sent.
            true => Ok(Vec::new()),
            false => present(dns.addresses(host).await),
        };
        Self { dns, domain, host, addresses }
    }

    /// The addresses of the mail server, as far as they are known.
    fn known_addresses(&self) -> &[IpAddr] {
        self.addresses.as_deref().unwrap_or_default()
    }

    /// Whether the mail server is named within the domain, so that its records are in the domain's zone.
    fn has_own_host(&self) -> bool {
        let labels = self.host.strip_suffix(self.domain.as_str());
        labels.is_some_and(|labels| labels.is_empty() || labels.ends_with('.'))
    }

    /// Returns the first host that is this server, by its name or by an address.
    ///
    /// # Errors
    /// [`Unsure`] if no host was found to be this server, and not every host was looked up with success.
    async fn this_server_among<'h>(&self, hosts: &[&'h str]) -> Result<Option<&'h str>, Unsure> {
        if let Some(host) = hosts.iter().find(|host| host.eq_ignore_ascii_case(self.host)) {
            return Ok(Some(host));
        }
        let ours = self.addresses.as_ref().map_err(|error| Unsure::Dns(error.clone()))?;
        if ours.is_empty() {
            return Ok(None);
        }
        let mut failure = None;
        for host in hosts.iter().take(MAX_HOSTS) {
            match present(self.dns.addresses(host).await) {
                Ok(theirs) if theirs.iter().any(|address| ours.contains(address)) => return Ok(Some(host)),
                Ok(_) => {}
                Err(error) => failure = Some(Unsure::Dns(error)),
            }
        }
        let unsure = failure.or((hosts.len() > MAX_HOSTS).then_some(Unsure::TooManyHosts));
        unsure.map_or(Ok(None), Err)
    }

    /// The operator's first step if the mail server has no name that is valid in a record.
    fn name_to_set(&self) -> Option<String> {
        let host = self.host;
        is_local_name(host).then(|| {
            format!(
                "First set mail.embedded.hostname to this server's name in DNS: no other server can find \"{host}\"."
            )
        })
    }
}

/// A check of the records of a domain.
pub(super) struct DnsCheck {
    /// The domain's keys that are not retired.
    pub(super) keys: Vec<DomainKey>,
    /// The result for each record.
    pub(super) records: Vec<RecordCheck>,
    /// Whether all required records are right; `None` if that is open.
    pub(super) verdict: Option<bool>,
    /// The time of the check.
    pub(super) at: Timestamp,
}

impl DnsCheck {
    /// Returns the required records that are not right.
    pub(super) fn broken(&self) -> Vec<BrokenRecord> {
        let broken = self.records.iter().filter(|record| record.required && !record.status.is_accepted());
        let shown = |record: &RecordCheck| BrokenRecord {
            kind: record.kind,
            name: record.name.clone(),
            expected: record.expected.clone(),
            found: record.found.iter().take(BrokenRecord::MAX_FOUND).map(|value| beginning(value)).collect(),
            status: record.status.as_str(),
            hint: record.hint.clone(),
        };
        broken.map(shown).collect()
    }
}

impl Service {
    /// Checks the domain's records. A new DKIM key that is found becomes the signing key.
    ///
    /// # Errors
    /// See [`DomainError`]. Name servers that do not answer are a status of the record, not an error.
    pub async fn verify_domain(&self, caller: &Caller, name: &DomainName) -> Result<DnsReport, DomainError> {
        caller.grants.may_manage_domain(name)?;
        if self.0.store.domains().get(name).await?.is_none() {
            return Err(DomainError::NotFound);
        }
        let check = self.check_records(name).await?;
        match check.verdict {
            Some(true) => self.set_verified(name, &check).await?,
            Some(false) => self.set_unverified(name, &check).await?,
            None => {}
        }
        self.step_dkim_keys(name, &check).await?;
        let verified = check.verdict == Some(true);
        Ok(DnsReport { domain: name.clone(), verified, checked_at: check.at, records: check.records })
    }

    /// Checks the domain's records, without a cache. Changes nothing.
    pub(super) async fn check_records(&self, name: &DomainName) -> Result<DnsCheck, DomainError> {
        let keys = self.keys_in_use(name).await?;
        let dns = TimedDns::new(self.0.fresh_dns.as_ref(), TIME);
        let context = Context::new(&dns, name, &self.0.settings.mail_host).await;
        let (server_keys, programs) = (self.server_keys().await, self.0.settings.mail_programs);
        let (mail, policies, server, pointers) = tokio::join!(
            check_mail(&context, &keys),
            advice::policies(&context),
            tlsa::check(&context, server_keys, programs),
            advice::ptr(&context)
        );
        let records = [mail, policies, server, pointers].concat();
        let verdict = verdict(&records);
        Ok(DnsCheck { keys, records, verdict, at: self.0.clock.now() })
    }

    pub(super) async fn set_verified(&self, name: &DomainName, check: &DnsCheck) -> Result<(), DomainError> {
        self.0.store.domains().set_verified(name, check.at).await?;
        self.0.events.wake();
        Ok(())
    }

    pub(super) async fn set_unverified(&self, name: &DomainName, check: &DnsCheck) -> Result<(), DomainError> {
        self.0.store.domains().set_unverified(name, &check.broken(), check.at).await?;
        self.0.events.wake();
        Ok(())
    }

    /// Returns the keys of a domain whose records belong into DNS: those that sign first.
    pub(super) async fn keys_in_use(&self, name: &DomainName) -> Result<Vec<DomainKey>, DomainError> {
        Ok(in_use_and_retired(self.0.store.dkim_keys().list(name).await?).0)
    }
}

/// Separates the keys whose records belong into DNS, those that sign first, from retired ones.
pub(super) fn in_use_and_retired(keys: Vec<DomainKey>) -> (Vec<DomainKey>, Vec<DomainKey>) {
    let (mut in_use, retired): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| key.state() != DkimState::Retired);
    in_use.sort_by_key(|key| (key.state() != DkimState::Active, key.state()));
    (in_use, retired)
}

fn beginning(value: &str) -> String {
    value.chars().take(BrokenRecord::MAX_CHARACTERS).collect()
}

/// Checks the records that other servers need to exchange mail with the domain.
pub(super) async fn check_mail(context: &Context<'_>, keys: &[DomainKey]) -> Vec<RecordCheck> {
    let (mx, spf, dkim, dmarc) =
        tokio::join!(mx::check(context), spf::check(context), dkim::check(context, keys), dmarc::check(context));
    [vec![mx, spf], dkim, vec![dmarc]].concat()
}

/// The records that protect a domain, and what valid policies among them do.
pub(super) struct ProtectionCheck {
    pub(super) records: Vec<RecordCheck>,
    /// What the SPF policy says about servers of strangers.
    pub(super) strangers: Option<StrangerResult>,
    /// The DMARC policy that applies to the domain.
    pub(super) policy: Option<AppliedPolicy>,
}

/// Checks the records that protect a domain.
pub(super) async fn check_protection(context: &Context<'_>, keys: &[DomainKey]) -> ProtectionCheck {
    let ((spf, strangers), dkim, (dmarc, policy), policies) =
        tokio::join!(spf::look(context), dkim::check(context, keys), dmarc::look(context), advice::policies(context));
    ProtectionCheck { records: [vec![spf], dkim, vec![dmarc], policies].concat(), strangers, policy }
}

/// Whether all required records are right; `None` if not all of them could be checked.
fn verdict(records: &[RecordCheck]) -> Option<bool> {
    let required = || records.iter().filter(|record| record.required);
    let is_known = required().all(|record| record.status != RecordStatus::Error);
    is_known.then(|| required().all(|record| record.status.is_accepted()))
}

/// The TXT records of a name; none if the name does not exist.
async fn texts(dns: &dyn Dns, name: &str) -> Result<Vec<String>, DnsError> {
    present(dns.txt(name).await)
}

/// The records of a name; none if the name does not exist.
fn present<T>(answer: Result<Vec<T>, DnsError>) -> Result<Vec<T>, DnsError> {
    match answer {
        Err(DnsError::NoSuchName) => Ok(Vec::new()),
        answer => answer,
    }
}

impl RecordCheck {
    /// A required record, not yet looked up.
    fn required(kind: &'static str, name: String, expected: String) -> Self {
        Self {
            kind,
            name,
            expected,
            found: Vec::new(),
            status: RecordStatus::Missing,
            required: true,
            hint: String::new(),
        }
    }

    fn advised(self) -> Self {
        Self { required: false, ..self }
    }

    fn with(self, status: RecordStatus, found: Vec<String>, hint: impl Into<String>) -> Self {
        Self { status, found, hint: hint.into(), ..self }
    }

    fn finding(self, found: Vec<String>) -> Self {
        Self { found, ..self }
    }

    /// The result of a check with a failed look-up.
    fn unanswered(self, error: &DnsError) -> Self {
        Self { status: RecordStatus::Error, hint: format!("The DNS look-up failed: {error}."), ..self }
    }

    /// The result of a check whose hosts were not all looked up.
    fn unsure(self, why: &Unsure) -> Self {
        match why {
            Unsure::Dns(error) => self.unanswered(error),
            Unsure::TooManyHosts => {
                let hint = format!(
                    "Only the first {MAX_HOSTS} hosts are looked up, and none of them is this server; publish fewer."
                );
                Self { status: RecordStatus::Error, hint, ..self }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mailapi_testkit::HangingDns;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hanging_dns_ends_in_time_and_proves_nothing() {
        let domain = "example.org".parse().unwrap();
        let checked = async {
            let dns = TimedDns::new(&HangingDns, TIME);
            let context = Context::new(&dns, &domain, "mx.example.org").await;
            [check_mail(&context, &[]).await, check_pointers(&context).await].concat()
        };
        let checks = tokio::time::timeout(TIME + Duration::from_secs(1), checked).await.expect("an answer in time");
        // Without a key, no DKIM record is looked up.
        for check in checks.iter().filter(|check| check.kind != "DKIM") {
            assert_eq!(check.status, RecordStatus::Error, "{check:?}");
        }
    }
}
