//! `GET /domains/{domain}/dns`.

use axum::extract::State;
use mailapi_service::domains::{DnsSetup, WantedRecord};
use serde::Serialize;
use utoipa::ToSchema;

use super::domain_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::shape::{Moment, PublicationState};
use crate::state::HttpState;

/// The DNS records that a domain needs.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
        "success": true, "domain": "example.test", "checked_at": "2026-11-20T10:15:30.123Z",
        "records": [{
            "type": "MX", "name": "example.test", "value": "10 mx.example.test.", "ttl": 3600, "purpose": "MX",
            "required": true, "status": "missing", "found": [],
            "hint": "Add the record; without it mail for the domain does not reach this server."
        }],
    "zone_file": "; DNS records for mail of example.test\nexample.test. 3600 IN MX 10 mx.example.test.\n"
}))]
pub(crate) struct DomainDns {
    /// Always true.
    success: bool,
    /// Domain name.
    domain: String,
    /// Time of the lookup.
    checked_at: Moment,
    /// The records.
    records: Vec<DomainDnsRecord>,
    /// The records to paste into the zone (RFC 1035). A record with another one in its place is a comment.
    zone_file: String,
}

/// A DNS record to publish.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
        "type": "TXT", "name": "_dmarc.example.test", "value": "v=DMARC1; p=quarantine; rua=mailto:postmaster@example.test",
        "ttl": 3600, "purpose": "DMARC", "required": true, "status": "found", "found": ["v=DMARC1; p=reject"],
    "hint": "The policy states how receivers treat forged mail."
}))]
struct DomainDnsRecord {
    /// Record type: `MX`, `TXT`, `SRV`, `CNAME`, `TLSA` or `PTR`.
    r#type: &'static str,
    /// Name in DNS, without the final dot. For a `PTR` record of an unknown address, the mail server's name.
    name: String,
    /// Value to publish; that of a TXT record has no quotes. Null if it is unknown; `hint` has the reason.
    #[schema(required)]
    value: Option<String>,
    /// Time to live in seconds.
    ttl: u32,
    /// `MX`, `SPF`, `DKIM`, `DMARC`, `SUBMISSION`, `IMAP`, `MTA-STS-HOST`, `MTA-STS`, `TLS-RPT`, `AUTOCONFIG`,
    /// `AUTODISCOVER`, `TLSA` or `PTR`.
    purpose: &'static str,
    /// Whether mail suffers without the record. Other records are recommended.
    required: bool,
    /// Whether DNS has the record.
    #[schema(value_type = PublicationState)]
    status: &'static str,
    /// Published values.
    found: Vec<String>,
    /// How to fix the record, or why a different value is accepted.
    hint: String,
}

impl From<WantedRecord> for DomainDnsRecord {
    fn from(record: WantedRecord) -> Self {
        Self {
            r#type: record.record_type,
            name: record.name,
            value: record.value,
            ttl: WantedRecord::TTL_SECONDS,
            purpose: record.purpose,
            required: record.required,
            status: record.status.as_str(),
            found: record.found,
            hint: record.hint,
        }
    }
}

impl From<DnsSetup> for DomainDns {
    fn from(setup: DnsSetup) -> Self {
        Self {
            success: true,
            domain: setup.domain.shown().to_owned(),
            checked_at: setup.checked_at.into(),
            records: setup.records.into_iter().map(Into::into).collect(),
            zone_file: setup.zone_file,
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound]);

/// Get the DNS records that a domain needs
///
/// For admins and for callers with `manage_domains` on the domain. Looks up the DNS records at once and changes nothing;
/// after you have published them, call `/domains/{domain}/verify`.
#[utoipa::path(get, path = "/domains/{domain}/dns", tag = "domains", operation_id = "get_domain_dns",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    responses((status = 200, description = "The DNS records.", body = DomainDns), Errors))]
pub(crate) async fn get_dns(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<DomainDns>, ApiError> {
    let name = domain_in(&path, &caller)?;
    Ok(Json(state.service().get_dns(&caller, &name).await?.into()))
}
