//! `POST /domains/{domain}/dns/rollback`.

use axum::extract::State;
use mailapi_service::domains::AttemptedChange;
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::AttemptedDnsChange;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::path::PathParameters;
use crate::request_body::request_body;
use crate::routes::domains::domain_in;
use crate::state::HttpState;

request_body! {
    /// The plan to undo.
    pub(crate) struct RollBackDns as "RollBackDns" {
        /// The newest applied plan, as in the history.
        plan_id: String,
    }
    example { "plan_id": "5f2c4c0c6f0e4d3b9a1d2e3f4a5b6c7d" }
}

/// What became of the changes.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "changes": [{
        "name": "example.test", "type": "MX", "before": { "ttl": 3600, "records": ["10 mx.example.test."] },
        "after": { "ttl": 0, "records": [] }, "state": "rolled_back", "error": null
    }]
}))]
pub(crate) struct DnsRolledBack {
    /// Always true; `changes` says what became of each one.
    success: bool,
    /// The changes back, the last one first. `applied` means that the records could not be changed back.
    changes: Vec<AttemptedDnsChange>,
}

impl From<Vec<AttemptedChange>> for DnsRolledBack {
    fn from(undone: Vec<AttemptedChange>) -> Self {
        Self { success: true, changes: undone.into_iter().map(Into::into).collect() }
    }
}

documented_errors!(
    Errors,
    documented_with_body,
    [AccessDenied, DomainNotFound, DnsProviderNotFound, DnsPlanChanged, DnsZoneNotFound, DnsRefused, DnsUnavailable]
);

/// Roll a DNS plan back
///
/// For admins. Restores the records that the newest applied plan has changed. Records that changed since stay as they are.
#[utoipa::path(post, path = "/domains/{domain}/dns/rollback", tag = "domains", operation_id = "roll_back_dns",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    request_body = RollBackDns,
    responses((status = 200, description = "What became of the changes.", body = DnsRolledBack), Errors))]
pub(crate) async fn roll_back(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    body: JsonBody<RollBackDns>,
) -> Result<Json<DnsRolledBack>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let undone = state.service().roll_back_dns(&caller, &name, &body.read()?.plan_id).await?;
    Ok(Json(undone.into()))
}
