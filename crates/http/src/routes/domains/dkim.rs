//! `GET` and `POST /domains/{domain}/dkim`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{DkimAlgorithm, DkimKey, DomainName};
use serde::Serialize;
use utoipa::ToSchema;

use super::domain_in;
use crate::answer::Json;
use crate::caller::{AdminCaller, Caller};
use crate::error::{ApiError, documented_errors};
use crate::json::OptionalJsonBody;
use crate::path::PathParameters;
use crate::request_body::request_body;
use crate::routes::to_the_end;
use crate::shape::{DkimAlgorithmName, Moment};
use crate::state::HttpState;

/// The public part of a DKIM key, and the DNS record to publish.
#[derive(Serialize, ToSchema)]
#[schema(as = DkimKey, example = json!({
        "success": true, "domain": "example.test", "selector": "m2026112001", "algorithm": "rsa-sha256",
        "dns_name": "m2026112001._domainkey.example.test", "dns_type": "TXT", "dns_value": "v=DKIM1; k=rsa; p=MIIBIjAN…",
    "public_key": "MIIBIjAN…", "created_at": "2026-11-20T10:15:30.123Z"
}))]
pub(crate) struct DkimRecord {
    /// Always true.
    success: bool,
    /// Domain name.
    domain: String,
    /// Selector of the key.
    selector: String,
    /// Signature algorithm.
    #[schema(value_type = DkimAlgorithmName)]
    algorithm: &'static str,
    /// Name of the DNS record.
    dns_name: String,
    /// Always `TXT`.
    dns_type: &'static str,
    /// Value of the DNS record.
    dns_value: String,
    /// Public key in base64.
    public_key: String,
    /// Creation time.
    created_at: Moment,
}

impl DkimRecord {
    fn new(domain: &DomainName, key: DkimKey) -> Self {
        Self {
            success: true,
            domain: domain.shown().to_owned(),
            dns_name: key.dns_name(domain),
            dns_type: "TXT",
            dns_value: key.dns_value(),
            algorithm: key.algorithm.as_str(),
            selector: key.selector,
            public_key: key.public_key,
            created_at: key.created_at.into(),
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound, NotFound]);

/// Get the DKIM key
///
/// For admins and for callers with `manage_domains` on the domain. Returns the public part of the newest key. A domain
/// pending approval has no key yet (`NOT_FOUND`).
#[utoipa::path(get, path = "/domains/{domain}/dkim", tag = "domains", operation_id = "get_dkim_key",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    responses((status = 200, description = "The DKIM key.", body = DkimRecord), Errors))]
pub(crate) async fn get_dkim(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<DkimRecord>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let key = state.service().get_dkim(&caller, &name).await?;
    Ok(Json(DkimRecord::new(&name, key)))
}

request_body! {
    /// Algorithm of the new key.
    pub(crate) struct RotateDkim as "RotateDkim" {
        /// Signature algorithm; `rsa-sha256` by default.
        algorithm: Option<DkimAlgorithmName>,
    }
    example { "algorithm": "rsa-sha256" }
}

documented_errors!(RotateErrors, documented_with_body, [AccessDenied, DomainNotFound, NotFound]);

/// Rotate the DKIM key
///
/// For admins. Creates a key with a new selector; publish its DNS record next. The old key signs until
/// `/domains/{domain}/verify` finds the new record. A domain pending approval has no key to rotate (`NOT_FOUND`).
#[utoipa::path(post, path = "/domains/{domain}/dkim", tag = "domains", operation_id = "rotate_dkim_key",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    request_body = Option<RotateDkim>,
    responses((status = 201, description = "The new DKIM key.", body = DkimRecord), RotateErrors))]
pub(crate) async fn rotate_dkim(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    OptionalJsonBody(body): OptionalJsonBody<RotateDkim>,
) -> Result<(StatusCode, Json<DkimRecord>), ApiError> {
    let name = domain_in(&path, &caller)?;
    let algorithm = body.read()?.algorithm.unwrap_or(DkimAlgorithm::Rsa2048);
    let (service, domain) = (state.service().clone(), name.clone());
    let key = to_the_end(async move { service.rotate_dkim(&caller, &name, algorithm).await }).await??;
    Ok((StatusCode::CREATED, Json(DkimRecord::new(&domain, key))))
}
