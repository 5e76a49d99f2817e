//! `GET /domains/{domain}/security`.

use axum::extract::State;
use mailapi_service::domains::{DomainPosture, DomainProtection};
use serde::Serialize;
use utoipa::ToSchema;

use super::domain_in;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::shape::{Moment, ProtectionLevelName, ProtectionName};
use crate::state::HttpState;

/// How well the records of a domain protect it from forgers and listeners.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainSecurity, example = json!({
    "success": true, "domain": "example.test", "checked_at": "2026-11-20T10:15:30.123Z", "level": "weak",
    "next_step": "When the reports show no failure of your own mail, publish p=quarantine.",
    "protections": [{
        "kind": "DMARC", "level": "weak", "found": ["v=DMARC1; p=none; rua=mailto:postmaster@example.test"],
        "text": "Receivers accept forged mail.",
        "next_step": "When the reports show no failure of your own mail, publish p=quarantine."
    }]
}))]
pub(crate) struct DomainSecured {
    /// Always true.
    success: bool,
    /// Domain name.
    domain: String,
    /// Time of the lookups.
    checked_at: Moment,
    /// Protection as a whole: as good as the worst of SPF, DKIM and DMARC. It is never `missing`.
    #[schema(value_type = ProtectionLevelName)]
    level: &'static str,
    /// Step that helps most now; null if there is none.
    #[schema(required)]
    next_step: Option<String>,
    /// Protections, in the order in which they are best published.
    protections: Vec<Protection>,
}

/// What one kind of record does for a domain.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainProtection)]
struct Protection {
    /// Kind of record.
    #[schema(value_type = ProtectionName)]
    kind: &'static str,
    /// How well it protects.
    #[schema(value_type = ProtectionLevelName)]
    level: &'static str,
    /// Published values.
    found: Vec<String>,
    /// What the records do now.
    text: String,
    /// What to do next; null if there is nothing to do.
    #[schema(required)]
    next_step: Option<String>,
}

impl From<DomainProtection> for Protection {
    fn from(DomainProtection { kind, level, found, text, next_step }: DomainProtection) -> Self {
        Self { kind, level: level.as_str(), found, text, next_step }
    }
}

impl From<DomainPosture> for DomainSecured {
    fn from(DomainPosture { domain, checked_at, level, next_step, protections }: DomainPosture) -> Self {
        Self {
            success: true,
            domain: domain.shown().to_owned(),
            checked_at: checked_at.into(),
            level: level.as_str(),
            next_step,
            protections: protections.into_iter().map(Into::into).collect(),
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound]);

/// Get the protection of a domain, and its next step
///
/// For admins and for callers with `manage_domains` on the domain. Looks up the records that protect the domain from forgers
/// and listeners, and changes nothing.
#[utoipa::path(get, path = "/domains/{domain}/security", tag = "domains", operation_id = "get_domain_security",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    responses((status = 200, description = "The protection.", body = DomainSecured), Errors))]
pub(crate) async fn posture(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<DomainSecured>, ApiError> {
    let name = domain_in(&path, &caller)?;
    Ok(Json(state.service().domain_posture(&caller, &name).await?.into()))
}
