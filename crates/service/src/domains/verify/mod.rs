//! `GET /domains/{domain}/verify`: whether the world finds in DNS what it needs to exchange mail with a domain.

mod advice;
mod dkim;
mod dmarc;
mod mx;
mod spf;
mod tags;

use std::net::IpAddr;

use mailapi_backend::{Dns, DnsError};
use mailapi_model::{DkimKey, DomainName, Timestamp};

use super::DomainError;
use crate::{Caller, Service, is_local_name};

/// What was found in DNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsReport {
    /// The domain.
    pub domain: DomainName,
    /// Whether every required record is right.
    pub verified: bool,
    /// When it was looked up.
    pub checked_at: Timestamp,
    /// Record by record.
    pub records: Vec<RecordCheck>,
}

/// What was found of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordCheck {
    /// What it is for: `MX`, `SPF`, `DKIM`, `DMARC`, `MTA-STS`, `TLS-RPT`, `PTR`.
    pub kind: &'static str,
    /// Where it stands in DNS.
    pub name: String,
    /// What should stand there.
    pub expected: String,
    /// What does stand there.
    pub found: Vec<String>,
    /// Whether that is right.
    pub status: RecordStatus,
    /// Whether mail suffers without it; the others are advice.
    pub required: bool,
    /// What to do about it, or why it is right although it looks different.
    pub hint: String,
}

/// Whether a record is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordStatus {
    /// It is.
    Ok,
    /// There is none.
    Missing,
    /// There is one that says something else.
    Mismatch,
    /// The name servers did not answer: nothing is known about it.
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

/// What the checks have in common.
struct Context<'a> {
    dns: &'a dyn Dns,
    domain: &'a DomainName,
    /// The name of our mail server.
    host: &'a str,
    /// Its addresses, from which mail is sent; empty when they cannot be found.
    addresses: Vec<IpAddr>,
}

impl Context<'_> {
    /// The first step for the operator if the mail server has no name that can stand in a record.
    fn name_to_set(&self) -> Option<String> {
        let host = self.host;
        is_local_name(host).then(|| {
            format!("First set mail.embedded.hostname to this server's name in DNS: no other server can find `{host}`.")
        })
    }
}

impl Service {
    /// Looks the domain's records up. A new DKIM key that is found signs from now on.
    ///
    /// # Errors
    /// See [`DomainError`]. Name servers that do not answer are a status of the record, no error.
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
        }
        self.let_found_key_sign(name, &keys, &records).await?;
        Ok(DnsReport { domain: name.clone(), verified, checked_at: now, records })
    }

    /// The key that signs, and the newer one that waits for its record, if there is one.
    async fn keys_to_find(&self, name: &DomainName) -> Result<Vec<DkimKey>, DomainError> {
        let keys = self.0.store.dkim_keys();
        let current = keys.current(name).await?;
        let newest = keys.newest(name).await?;
        let waits = newest.filter(|newest| current.as_ref().is_none_or(|current| current.selector != newest.selector));
        Ok(current.into_iter().chain(waits).collect())
    }

    async fn check_records(&self, name: &DomainName, keys: &[DkimKey]) -> Vec<RecordCheck> {
        let (dns, host) = (self.0.dns.as_ref(), self.0.settings.mail_host.as_str());
        // A local name leads to addresses such as 127.0.0.1, from which no mail is sent.
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
            self.0.epoch.end();
            tracing::info!(domain = %name, selector = newest.selector, "the new DKIM key was found and signs");
        }
        Ok(())
    }
}

/// Whether every required record is right, and whether that is known.
fn verdict(records: &[RecordCheck]) -> (bool, bool) {
    let required = || records.iter().filter(|record| record.required);
    let verified = required().all(|record| record.status == RecordStatus::Ok);
    let known = required().all(|record| record.status != RecordStatus::Error);
    (verified, known)
}

/// The texts of a name; one that does not exist has none.
async fn texts(dns: &dyn Dns, name: &str) -> Result<Vec<String>, DnsError> {
    match dns.txt(name).await {
        Err(DnsError::NoSuchName) => Ok(Vec::new()),
        texts => texts,
    }
}

impl RecordCheck {
    /// A required record that was looked up with this result.
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
        self.with(RecordStatus::Error, Vec::new(), format!("Nothing is known about it: {error}."))
    }
}
