//! `GET /domains/{domain}/verify`.

use axum::extract::State;
use mailapi_service::domains::{DnsReport, RecordCheck};
use serde::Serialize;
use utoipa::ToSchema;

use super::domain_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::shape::{Moment, RecordState};
use crate::state::HttpState;

/// Result of a DNS verification.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainVerified {
    /// Always true.
    success: bool,
    /// Domain name.
    domain: String,
    /// Whether every required record is correct.
    verified: bool,
    /// Time of the lookup.
    checked_at: Moment,
    /// Result for each record.
    records: Vec<DnsRecord>,
}

/// A DNS record.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
        "type": "DKIM", "name": "m2026112001._domainkey.example.test", "expected": "v=DKIM1; k=rsa; p=MIIBIjAN…",
    "found": [], "status": "missing", "required": true, "hint": "Publish the expected text as a TXT record."
}))]
struct DnsRecord {
    /// Record type: `MX`, `SPF`, `DKIM` or `DMARC`; as advice `MTA-STS`, `TLS-RPT`, `TLSA` or `PTR`.
    r#type: &'static str,
    /// Name of the DNS record.
    name: String,
    /// Expected value.
    expected: String,
    /// Published values.
    found: Vec<String>,
    /// Result of the check.
    #[schema(value_type = RecordState)]
    status: &'static str,
    /// Whether the record is required for `verified`.
    required: bool,
    /// How to fix the record, or why a different value is accepted.
    hint: String,
}

impl From<RecordCheck> for DnsRecord {
    fn from(record: RecordCheck) -> Self {
        Self {
            r#type: record.kind,
            name: record.name,
            expected: record.expected,
            found: record.found,
            status: record.status.as_str(),
            required: record.required,
            hint: record.hint,
        }
    }
}

impl From<DnsReport> for DomainVerified {
    fn from(report: DnsReport) -> Self {
        Self {
            success: true,
            domain: report.domain.shown().to_owned(),
            verified: report.verified,
            checked_at: report.checked_at.into(),
            records: report.records.into_iter().map(Into::into).collect(),
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound]);

/// Verify a domain's DNS records
///
/// For admins and for callers with `manage_domains` on the domain. Looks up the DNS records at once. If the record of a
/// new DKIM key is found, the key signs from then on.
#[utoipa::path(get, path = "/domains/{domain}/verify", tag = "domains", operation_id = "verify_domain",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    responses((status = 200, description = "The result of the verification.", body = DomainVerified), Errors))]
pub(crate) async fn verify(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<DomainVerified>, ApiError> {
    let name = domain_in(&path, &caller)?;
    Ok(Json(state.service().verify_domain(&caller, &name).await?.into()))
}
