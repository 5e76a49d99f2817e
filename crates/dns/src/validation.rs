//! Look-ups with DNSSEC. The signatures are verified here, so the name servers need not be trusted; they must only pass
//! the signatures on (RFC 4035 section 5).

use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::net::{DnsError as Answer, NetError};
use hickory_resolver::proto::dnssec::Proof;
use hickory_resolver::proto::rr::rdata::TLSA;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use mailapi_backend::{DnsError, MailExchange, Proven, TlsaRecords};
use mailapi_model::TlsaRecord;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::{DnsSettings, DnsSetupError, builder, exchange, host, of_network, of_servers, query_name};

/// The pause before name servers that passed no signatures on are tried again.
const PAUSE: Duration = Duration::from_mins(10);
/// The pause if they did not answer.
const SILENCE_PAUSE: Duration = Duration::from_mins(1);

/// A resolver that verifies signatures.
pub(crate) struct Validation {
    resolver: TokioResolver,
    support: Mutex<Support>,
}

/// Whether the name servers pass signatures on.
#[derive(Debug, Clone, Copy)]
enum Support {
    Unknown,
    /// They do. This is final: otherwise an attacker could turn validation off by damaging answers.
    Yes,
    /// They did not, and are tried again at this time.
    NotUntil(Instant),
}

impl Validation {
    pub(crate) fn new(settings: &DnsSettings) -> Result<Self, DnsSetupError> {
        let mut builder = builder(settings)?;
        builder.options_mut().validate = true;
        if let Some(keys) = &settings.root_keys {
            builder = builder.with_trust_anchor(keys.anchors());
        }
        Ok(Self { resolver: builder.build().map_err(of_servers)?, support: Mutex::new(Support::Unknown) })
    }

    /// Returns whether the name servers pass signatures on. Where they do not, every signed name would look forged.
    pub(crate) async fn works(&self) -> bool {
        let mut support = self.support.lock().await;
        match *support {
            Support::Yes => return true,
            Support::NotUntil(time) if Instant::now() < time => return false,
            Support::NotUntil(_) | Support::Unknown => {}
        }
        // The root has been signed since 2010, and every resolver has its SOA record.
        let (reason, pause) = match self.records(".", RecordType::SOA).await {
            Ok(Proven { is_proven: true, .. }) => {
                *support = Support::Yes;
                return true;
            }
            Ok(_) => ("the SOA record of the root has no signature".to_owned(), PAUSE),
            Err(error @ DnsError::Timeout) => (error.to_string(), SILENCE_PAUSE),
            Err(error) => (error.to_string(), PAUSE),
        };
        tracing::warn!(reason, "DNSSEC signatures of the root could not be verified; mail is sent without DANE");
        *support = Support::NotUntil(Instant::now() + pause);
        false
    }

    pub(crate) async fn mx(&self, domain: &str) -> Result<Proven<Vec<MailExchange>>, DnsError> {
        let Proven { value, is_proven } = self.records(domain, RecordType::MX).await?;
        let value = value.iter().filter_map(|record| exchange(&record.data)).collect();
        Ok(Proven { value, is_proven })
    }

    pub(crate) async fn tlsa(&self, mail_host: &str, port: u16) -> Result<Option<TlsaRecords>, DnsError> {
        // Without proven addresses there can be no proven TLSA records, and the name servers of many unsigned domains do
        // not answer the query (RFC 7672 section 2.2.2).
        let Some(target) = self.proven_target(mail_host).await? else { return Ok(None) };
        let is_alias = !target.eq_ignore_ascii_case(mail_host.trim_end_matches('.'));
        for base in std::iter::once(target).chain(is_alias.then(|| mail_host.to_owned())) {
            let name = format!("_{port}._tcp.{base}");
            let found = match self.records(&name, RecordType::TLSA).await {
                Ok(found) => found,
                Err(DnsError::NoSuchName) => continue,
                Err(error) => return Err(error),
            };
            let records: Vec<_> = found.value.iter().filter_map(|record| association(&record.data)).collect();
            if found.is_proven && !records.is_empty() {
                return Ok(Some(TlsaRecords { base, records }));
            }
        }
        Ok(None)
    }

    /// Returns the name that has the addresses of a host, which differs from it if it is an alias; `None` if the
    /// addresses are not proven, or there are none.
    async fn proven_target(&self, mail_host: &str) -> Result<Option<String>, DnsError> {
        for kind in [RecordType::A, RecordType::AAAA] {
            let Proven { value, is_proven } = match self.records(mail_host, kind).await {
                Err(DnsError::NoSuchName) => return Ok(None),
                found => found?,
            };
            if let Some(record) = value.iter().find(|record| record.record_type() == kind) {
                return Ok(is_proven.then(|| host(&record.name)));
            }
        }
        Ok(None)
    }

    /// Returns the records of the answer, aliases included. An empty answer is never called proven.
    async fn records(&self, name: &str, kind: RecordType) -> Result<Proven<Vec<Record>>, DnsError> {
        match self.resolver.lookup(query_name(name)?, kind).await {
            Ok(found) => judged(found.answers().iter().filter(|record| !record.record_type().is_rrsig())),
            Err(error) if error.is_nx_domain() => Err(DnsError::NoSuchName),
            Err(error) if error.is_no_records_found() => Ok(Proven { value: Vec::new(), is_proven: false }),
            // A proof of absence with too many iterations proves nothing (RFC 9276 section 3.2).
            Err(NetError::Dns(Answer::Nsec { response, proof: Proof::Insecure, .. })) => {
                let records = response.answers.iter().filter(|record| !record.record_type().is_rrsig());
                Ok(Proven { value: records.cloned().collect(), is_proven: false })
            }
            Err(NetError::Dns(Answer::Nsec { .. } | Answer::DnssecBogus)) => Err(not_valid()),
            Err(error) => Err(of_network(&error)),
        }
    }
}

fn judged<'a>(records: impl Iterator<Item = &'a Record>) -> Result<Proven<Vec<Record>>, DnsError> {
    let records: Vec<Record> = records.cloned().collect();
    if records.iter().any(|record| record.proof == Proof::Bogus) {
        return Err(not_valid());
    }
    // An address from the hosts file of the system is indeterminate.
    let is_proven = !records.is_empty() && records.iter().all(|record| record.proof == Proof::Secure);
    Ok(Proven { value: records, is_proven })
}

fn not_valid() -> DnsError {
    DnsError::Failed("the DNSSEC signatures are not valid".to_owned())
}

fn association(data: &RData) -> Option<TlsaRecord> {
    match data {
        RData::TLSA(tlsa) => Some(tlsa_record(tlsa)),
        _ => None,
    }
}

pub(crate) fn tlsa_record(tlsa: &TLSA) -> TlsaRecord {
    TlsaRecord {
        usage: tlsa.cert_usage.into(),
        selector: tlsa.selector.into(),
        matching: tlsa.matching.into(),
        data: tlsa.cert_data.clone(),
    }
}
