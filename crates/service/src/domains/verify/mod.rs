//! `GET /domains/{domain}/verify`: checks the DNS records that other servers need to exchange mail with a domain.

mod advice;
mod dkim;
mod dmarc;
mod mx;
mod spf;
mod tags;

pub(crate) use spf::is_term as is_spf_term;

use std::net::IpAddr;

use mailapi_backend::{Dns, DnsError};
use mailapi_model::{DkimKey, DomainName, Timestamp};

use super::DomainError;
use crate::{Caller, Service, is_local_name};

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
    /// The kind: `MX`, `SPF`, `DKIM`, `DMARC`, `MTA-STS`, `TLS-RPT`, `PTR`.
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
    /// The name servers did not answer.
    Error,
}

impl RecordStatus {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Mismatch => "mismatch",
            Self::Error => "error",
        }
    }
}

/// Data shared by all checks.
struct Context<'a> {
    dns: &'a dyn Dns,
    domain: &'a DomainName,
    /// The name of the mail server.
    host: &'a str,
    /// The addresses of the mail server, from which mail is sent; empty if they are unknown.
    addresses: Vec<IpAddr>,
}

impl Context<'_> {
    /// The operator's first step if the mail server has no name that is valid in a record.
    fn name_to_set(&self) -> Option<String> {
        let host = self.host;
        is_local_name(host).then(|| {
            format!("First set mail.embedded.hostname to this server's name in DNS: no other server can find `{host}`.")
        })
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
        let keys = self.keys_to_find(name).await?;
        let records = self.check_records(name, &keys).await;
        let (verified, known) = verdict(&records);
        let now = self.0.clock.now();
        if known {
            self.0.store.domains().set_verified(name, verified.then_some(now)).await?;
            self.0.events.wake();
        }
        self.let_found_key_sign(name, &keys, &records).await?;
        Ok(DnsReport { domain: name.clone(), verified, checked_at: now, records })
    }

    /// The signing key, and the newer key that waits for its record, if any.
    async fn keys_to_find(&self, name: &DomainName) -> Result<Vec<DkimKey>, DomainError> {
        let keys = self.0.store.dkim_keys();
        let current = keys.current(name).await?;
        let newest = keys.newest(name).await?;
        let waits = newest.filter(|newest| current.as_ref().is_none_or(|current| current.selector != newest.selector));
        Ok(current.into_iter().chain(waits).collect())
    }

    async fn check_records(&self, name: &DomainName, keys: &[DkimKey]) -> Vec<RecordCheck> {
        let (dns, host) = (self.0.dns.as_ref(), self.0.settings.mail_host.as_str());
        // A local name resolves to addresses such as 127.0.0.1, from which no mail is sent.
        let addresses = if is_local_name(host) { Vec::new() } else { dns.addresses(host).await.unwrap_or_default() };
        let context = Context { dns, domain: name, host, addresses };
        let (mx, spf, dkim, dmarc, advice) = tokio::join!(
            mx::check(&context),
            spf::check(&context),
            dkim::check(&context, keys),
            dmarc::check(&context),
            advice::check(&context),
        );
        [vec![mx, spf], dkim, vec![dmarc], advice].concat()
    }

    async fn let_found_key_sign(
        &self,
        name: &DomainName,
        keys: &[DkimKey],
        records: &[RecordCheck],
    ) -> Result<(), DomainError> {
        let Some(newest) = keys.last() else { return Ok(()) };
        let dns_name = newest.dns_name(name);
        let found = records.iter().any(|record| record.name == dns_name && record.status == RecordStatus::Ok);
        if !found {
            return Ok(());
        }
        let keys = self.0.store.dkim_keys();
        if keys.current(name).await?.is_none_or(|current| current.selector != newest.selector) {
            keys.sign_with(name, &newest.selector, self.0.clock.now()).await?;
            self.changed();
            tracing::info!(domain = %name, selector = newest.selector, "the new DKIM key was found and signs");
        }
        Ok(())
    }
}

/// Whether all required records are right, and whether all of them could be checked.
fn verdict(records: &[RecordCheck]) -> (bool, bool) {
    let required = || records.iter().filter(|record| record.required);
    let verified = required().all(|record| record.status == RecordStatus::Ok);
    let known = required().all(|record| record.status != RecordStatus::Error);
    (verified, known)
}

/// The TXT records of a name; none if the name does not exist.
async fn texts(dns: &dyn Dns, name: &str) -> Result<Vec<String>, DnsError> {
    match dns.txt(name).await {
        Err(DnsError::NoSuchName) => Ok(Vec::new()),
        texts => texts,
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

    fn unanswered(self, error: &DnsError) -> Self {
        self.with(RecordStatus::Error, Vec::new(), format!("The DNS look-up failed: {error}."))
    }
}
