//! `GET` and `POST /domains/{domain}/dkim`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{DkimAlgorithm, DomainKey, DomainName};
use mailapi_service::domains::DomainError;
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
use crate::shape::{DkimAlgorithmName, DkimStateName, Moment};
use crate::state::HttpState;

/// The public part of a DKIM key, and the DNS record to publish.
#[derive(Serialize, ToSchema)]
#[schema(as = DkimKey, example = json!({
        "success": true, "domain": "example.test", "selector": "m2026112001", "algorithm": "rsa-sha256",
        "dns_name": "m2026112001._domainkey.example.test", "dns_type": "TXT", "dns_value": "v=DKIM1; k=rsa; p=MIIBIjAN…",
    "public_key": "MIIBIjAN…", "created_at": "2026-11-20T10:15:30.123Z", "keys": [{
        "selector": "m2026112001", "algorithm": "rsa-sha256", "state": "active",
        "dns_name": "m2026112001._domainkey.example.test", "dns_value": "v=DKIM1; k=rsa; p=MIIBIjAN…",
        "created_at": "2026-11-20T10:15:30.123Z", "published_at": null, "active_at": "2026-11-20T10:15:30.123Z",
        "retiring_at": null, "retired_at": null
    }]
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
    /// The keys of the domain, newest first; retired ones follow the others.
    keys: Vec<DkimKeySteps>,
}

/// A DKIM key, its record, and when it reached each step; null for steps that it did not reach.
#[derive(Serialize, ToSchema)]
pub(crate) struct DkimKeySteps {
    /// Selector of the key.
    selector: String,
    /// Signature algorithm.
    #[schema(value_type = DkimAlgorithmName)]
    algorithm: &'static str,
    /// The last step. `pending`: the record was not found yet. `published`: not every name server has it. `active`: the
    /// key signs. `retiring`: a newer key signs, and the record must stay. `retired`: the key is erased, and the record can
    /// be removed.
    #[schema(value_type = DkimStateName)]
    state: &'static str,
    /// Name of the DNS record.
    dns_name: String,
    /// Value of the DNS record.
    dns_value: String,
    /// Creation time.
    created_at: Moment,
    /// When the record was first found; null also for the first key of a domain, which signs at once.
    published_at: Option<Moment>,
    /// Since when the key signs.
    active_at: Option<Moment>,
    /// When a newer key of its algorithm replaced it.
    retiring_at: Option<Moment>,
    /// When the key was erased.
    retired_at: Option<Moment>,
}

impl DkimKeySteps {
    fn new(domain: &DomainName, key: DomainKey) -> Self {
        let (state, DomainKey { key, steps }) = (key.state(), key);
        Self {
            algorithm: key.algorithm.as_str(),
            state: state.as_str(),
            dns_name: key.dns_name(domain),
            dns_value: key.dns_value(),
            selector: key.selector,
            created_at: key.created_at.into(),
            published_at: steps.published_at.map(Moment::from),
            active_at: steps.active_at.map(Moment::from),
            retiring_at: steps.retiring_at.map(Moment::from),
            retired_at: steps.retired_at.map(Moment::from),
        }
    }
}

impl DkimRecord {
    /// Returns the record of a domain with these keys; `None` if there is none.
    pub(crate) fn of(domain: &DomainName, keys: Vec<DomainKey>) -> Option<Self> {
        let key = keys.first()?.key.clone();
        Some(Self {
            success: true,
            domain: domain.shown().to_owned(),
            dns_name: key.dns_name(domain),
            dns_type: "TXT",
            dns_value: key.dns_value(),
            algorithm: key.algorithm.as_str(),
            selector: key.selector,
            public_key: key.public_key,
            created_at: key.created_at.into(),
            keys: keys.into_iter().map(|key| DkimKeySteps::new(domain, key)).collect(),
        })
    }
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound, NotFound]);

/// Get the DKIM keys
///
/// For admins and for callers with `manage_domains` on the domain. Returns the public part of the newest key, and the steps
/// of all keys. A domain pending approval has no key yet (`NOT_FOUND`).
#[utoipa::path(get, path = "/domains/{domain}/dkim", tag = "domains", operation_id = "get_dkim_key",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    responses((status = 200, description = "The DKIM key.", body = DkimRecord), Errors))]
pub(crate) async fn get_dkim(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<DkimRecord>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let keys = state.service().list_dkim_keys(&caller, &name).await?;
    Ok(Json(DkimRecord::of(&name, keys).ok_or(DomainError::AwaitsApproval)?))
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
/// For admins. Creates a key with a new selector; publish its DNS record next. The old key of the algorithm signs until
/// the record is found: by `/domains/{domain}/verify`, or within an hour. Keys of both algorithms sign side by side. A domain pending approval has no key to rotate (`NOT_FOUND`).
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
    let keys = to_the_end(async move {
        service.rotate_dkim(&caller, &name, algorithm).await?;
        Ok::<_, ApiError>(service.list_dkim_keys(&caller, &name).await?)
    })
    .await??;
    Ok((StatusCode::CREATED, Json(DkimRecord::of(&domain, keys).ok_or(DomainError::AwaitsApproval)?)))
}
