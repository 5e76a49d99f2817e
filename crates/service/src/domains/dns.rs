//! `GET /domains/{domain}/dns`: the DNS records of a domain, to publish them.

use std::net::IpAddr;

use mailapi_backend::reverse_name;
use mailapi_model::{DomainKey, DomainName, KeyDigests, Timestamp};

use super::DomainError;
use super::verify::{
    Context, RecordCheck, RecordStatus, TIME, TimedDns, check_mail, check_pointers, hosting, programs, tlsa,
};
use super::zone_file::zone_file;
use crate::{Caller, Service, Settings};

/// The longest name in DNS (RFC 1035 section 2.3.4), as text without the final dot.
const MAX_NAME: usize = 253;

/// The records of a domain, and what DNS has of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsSetup {
    /// The domain.
    pub domain: DomainName,
    /// The time of the check.
    pub checked_at: Timestamp,
    /// The records.
    pub records: Vec<WantedRecord>,
    /// The records in the syntax of master files (RFC 1035 section 5). A record that must not stand beside a published
    /// one is a comment.
    pub zone_file: String,
}

/// A record that this installation wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedRecord {
    /// The type in DNS: `MX`, `TXT`, `SRV`, `CNAME`, `TLSA` or `PTR`.
    pub record_type: &'static str,
    /// The name in DNS, without the final dot. For a `PTR` record of an unknown address, the mail server's name.
    pub name: String,
    /// The value to publish; text without quotes. `None` if it is unknown.
    pub value: Option<String>,
    /// `MX`, `SPF`, `DKIM`, `DMARC`, `SUBMISSION`, `IMAP`, `MTA-STS-HOST`, `MTA-STS`, `TLS-RPT`, `AUTOCONFIG`,
    /// `AUTODISCOVER`, `TLSA` or `PTR`.
    pub purpose: &'static str,
    /// Whether mail suffers without the record; other records are recommended only.
    pub required: bool,
    /// What DNS has.
    pub status: Publication,
    /// The published values.
    pub found: Vec<String>,
    /// The action to take, or the reason why a differing value is right.
    pub hint: String,
}

/// What DNS has of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// The record, or another one with the same effect.
    Found,
    /// No such record.
    Missing,
    /// Another record, which does not have the same effect.
    Different,
    /// Nothing is certain: a look-up failed, or the value to publish or the effect of the published one is unknown.
    Unknown,
}

impl Publication {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Found, Self::Missing, Self::Different, Self::Unknown];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Missing => "missing",
            Self::Different => "different",
            Self::Unknown => "unknown",
        }
    }
}

impl WantedRecord {
    /// Time for which other servers may cache a record. An hour keeps a mistake short, at few queries.
    pub const TTL_SECONDS: u32 = 3600;
}

impl Service {
    /// Returns the records that the domain needs, with what DNS has of them. Changes nothing, in contrast to
    /// [`Service::verify_domain`], which makes the same checks.
    ///
    /// # Errors
    /// See [`DomainError`]. Name servers that do not answer are a status of the record, not an error.
    pub async fn get_dns(&self, caller: &Caller, name: &DomainName) -> Result<DnsSetup, DomainError> {
        caller.grants.may_manage_domain(name)?;
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?.name;
        let keys = self.keys_in_use(name).await?;
        let dns = TimedDns::new(self.0.fresh_dns.as_ref(), TIME);
        let settings = &self.0.settings;
        let context = Context::new(&dns, &domain, &settings.mail_host).await;
        let records = wanted_records(&context, &keys, self.server_keys().await, settings).await;
        let zone_file = zone_file(&domain, &records);
        Ok(DnsSetup { domain, checked_at: self.0.clock.now(), records, zone_file })
    }
}

/// Returns the records that a domain needs, with what DNS has of them.
pub(super) async fn wanted_records(
    context: &Context<'_>,
    keys: &[DomainKey],
    server_keys: Option<KeyDigests>,
    settings: &Settings,
) -> Vec<WantedRecord> {
    let (mail, programs, pages, server, pointers) = tokio::join!(
        check_mail(context, keys),
        programs::check(context, settings.mail_programs),
        hosting::check(context, settings.web_host.as_deref(), settings.mail_programs),
        tlsa::check(context, server_keys, settings.mail_programs),
        check_pointers(context),
    );
    mail.into_iter().chain(programs).chain(pages).chain(server).chain(pointers).map(WantedRecord::from).collect()
}

impl From<RecordCheck> for WantedRecord {
    fn from(check: RecordCheck) -> Self {
        let purpose = check.kind;
        let (name, value) = match check.name.parse::<IpAddr>() {
            Ok(address) => (reverse_name(address), Some(format!("{}.", check.expected))),
            // The name of a PTR record is made of the address.
            Err(_) if purpose == "PTR" => (check.name, None),
            Err(_) => (check.name, Some(check.expected).filter(|value| !value.is_empty())),
        };
        let is_too_long = name.len() > MAX_NAME;
        let hint = match is_too_long {
            true => "DNS allows no name of this length: mail of the domain cannot have this record.".to_owned(),
            false => check.hint,
        };
        let value = value.filter(|_| !is_too_long);
        let status = if value.is_some() { check.status.into() } else { Publication::Unknown };
        let record_type = record_type(purpose);
        Self { record_type, name, value, purpose, required: check.required, status, found: check.found, hint }
    }
}

impl From<RecordStatus> for Publication {
    fn from(status: RecordStatus) -> Self {
        match status {
            RecordStatus::Ok => Self::Found,
            RecordStatus::Missing => Self::Missing,
            RecordStatus::Mismatch => Self::Different,
            RecordStatus::Undecided | RecordStatus::Error => Self::Unknown,
        }
    }
}

fn record_type(purpose: &str) -> &'static str {
    match purpose {
        "MX" => "MX",
        "PTR" => "PTR",
        "TLSA" => "TLSA",
        "SUBMISSION" | "IMAP" | "AUTODISCOVER" => "SRV",
        "MTA-STS-HOST" | "AUTOCONFIG" => "CNAME",
        _ => "TXT",
    }
}
