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

/// What DNS says of a domain.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainVerified {
    /// Always true.
    success: bool,
    /// The domain.
    domain: String,
    /// Whether every required record is right.
    verified: bool,
    /// When it was looked up.
    checked_at: Moment,
    /// Record by record.
    records: Vec<DnsRecord>,
}

/// One record.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "DKIM", "name": "m2026112001._domainkey.example.org", "expected": "v=DKIM1; k=rsa; p=MIIBIjAN…",
    "found": [], "status": "missing", "required": true, "hint": "Publish the expected text as a TXT record."
}))]
struct DnsRecord {
    /// What it is for: `MX`, `SPF`, `DKIM`, `DMARC`, and as advice `MTA-STS`, `TLS-RPT` and `PTR`.
    r#type: &'static str,
    /// Where it stands in DNS.
    name: String,
    /// What should stand there.
    expected: String,
    /// What stands there.
    found: Vec<String>,
    /// Whether the record is published as expected.
    #[schema(value_type = RecordState)]
    status: &'static str,
    /// Whether mail suffers without it.
    required: bool,
    /// What to do about it, or why it is right although it looks different.
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
/// For admins and for callers with `manage_domains` on the domain. Looks the records up now. A new DKIM key whose record
/// is found signs from now on.
#[utoipa::path(get, path = "/domains/{domain}/verify", tag = "domains", operation_id = "verify_domain",
    params(("domain" = String, Path, format = IdnHostname, description = "The domain's name.",
        example = "example.org")),
    responses((status = 200, description = "What DNS says.", body = DomainVerified), Errors))]
pub(crate) async fn verify(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<DomainVerified>, ApiError> {
    let name = domain_in(&path, &caller)?;
    Ok(Json(state.service().verify_domain(&caller, &name).await?.into()))
}
