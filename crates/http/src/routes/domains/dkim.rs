//! `GET` and `POST /domains/{domain}/dkim`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{DkimAlgorithm, DkimKey, DomainName, Violations};
use serde::Serialize;
use utoipa::ToSchema;

use super::domain_in;
use crate::answer::Json;
use crate::caller::{AdminCaller, Caller};
use crate::error::{ApiError, documented_errors};
use crate::json::{Members, OptionalJsonBody};
use crate::path::PathParameters;
use crate::routes::to_the_end;
use crate::shape::Moment;
use crate::state::HttpState;

/// The public side of a DKIM key, and the DNS record that publishes it.
#[derive(Serialize, ToSchema)]
#[schema(as = DkimKey, example = json!({
    "success": true, "domain": "example.org", "selector": "m2026112001", "algorithm": "rsa-sha256",
    "dns_name": "m2026112001._domainkey.example.org", "dns_type": "TXT", "dns_value": "v=DKIM1; k=rsa; p=MIIBIjAN…",
    "public_key": "MIIBIjAN…", "created_at": "2026-11-20T10:15:30.123Z"
}))]
pub(crate) struct DkimRecord {
    /// Always true.
    success: bool,
    /// The domain.
    domain: String,
    /// The key's name within the domain.
    selector: String,
    /// What it signs with.
    #[schema(value_type = DkimAlgorithmName)]
    algorithm: &'static str,
    /// Where the record has to stand.
    dns_name: String,
    /// Always `TXT`.
    dns_type: &'static str,
    /// What the record has to say.
    dns_value: String,
    /// The public key in base64.
    public_key: String,
    /// When the key was made.
    created_at: Moment,
}

/// What a DKIM key signs with.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the names in the document; they are read as `mailapi_model::DkimAlgorithm`")]
enum DkimAlgorithmName {
    /// RSA with 2048 bits (RFC 6376), which every receiver checks.
    #[schema(rename = "rsa-sha256")]
    Rsa,
    /// Ed25519 (RFC 8463), which not every receiver knows.
    #[schema(rename = "ed25519-sha256")]
    Ed25519,
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
/// For admins and for callers with `manage_domains` on the domain. The newest key's public side; the private one never
/// leaves the service. A domain that waits for approval has no key yet (`NOT_FOUND`).
#[utoipa::path(get, path = "/domains/{domain}/dkim", tag = "domains", operation_id = "get_dkim_key",
    params(("domain" = String, Path, format = IdnHostname, description = "The domain's name.",
        example = "example.org")),
    responses((status = 200, description = "The key.", body = DkimRecord), Errors))]
pub(crate) async fn get_dkim(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<DkimRecord>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let key = state.service().get_dkim(&caller, &name).await?;
    Ok(Json(DkimRecord::new(&name, key)))
}

/// Which kind of key to make.
#[derive(ToSchema)]
#[schema(example = json!({ "algorithm": "rsa-sha256" }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct RotateDkim {
    /// What it is to sign with; absent means `rsa-sha256`.
    algorithm: Option<DkimAlgorithmName>,
}

documented_errors!(RotateErrors, documented_with_body, [AccessDenied, DomainNotFound, NotFound]);

/// Make a new DKIM key
///
/// For admins. The new key gets a new selector. The old one goes on signing until `/domains/{domain}/verify` has found the
/// new record in DNS, so publish it next. A domain that waits for approval gets its first key by that (`NOT_FOUND`).
#[utoipa::path(post, path = "/domains/{domain}/dkim", tag = "domains", operation_id = "rotate_dkim_key",
    params(("domain" = String, Path, format = IdnHostname, description = "The domain's name.",
        example = "example.org")),
    request_body = Option<RotateDkim>,
    responses((status = 201, description = "The new key.", body = DkimRecord), RotateErrors))]
pub(crate) async fn rotate_dkim(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    OptionalJsonBody(members): OptionalJsonBody,
) -> Result<(StatusCode, Json<DkimRecord>), ApiError> {
    let name = domain_in(&path, &caller)?;
    let algorithm = read(members)?;
    let (service, domain) = (state.service().clone(), name.clone());
    let key = to_the_end(async move { service.rotate_dkim(&caller, &name, algorithm).await }).await??;
    Ok((StatusCode::CREATED, Json(DkimRecord::new(&domain, key))))
}

fn read(mut members: Members) -> Result<DkimAlgorithm, Violations> {
    let mut violations = Violations::none();
    let algorithm = members.parsed("algorithm", &mut violations).unwrap_or(DkimAlgorithm::Rsa2048);
    violations.or(Some(algorithm))
}
