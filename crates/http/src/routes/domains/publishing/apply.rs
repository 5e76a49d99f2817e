//! `POST /domains/{domain}/dns/apply`.

use axum::extract::State;
use mailapi_service::domains::{AppliedPlan, PlanOptions};
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::{AttemptedDnsChange, NameServerView};
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::path::PathParameters;
use crate::request_body::request_body;
use crate::routes::domains::domain_in;
use crate::state::HttpState;

request_body! {
    /// The plan to apply.
    pub(crate) struct ApplyDns as "ApplyDns" {
        /// The `plan_id` that was seen.
        plan_id: String,
        /// The purposes that the plan was made with, as in `replace` of the plan.
        replace: Option<Vec<String>>,
    }
    example { "plan_id": "5f2c4c0c6f0e4d3b9a1d2e3f4a5b6c7d" }
}

/// What became of a plan.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "domain": "example.test", "plan_id": "5f2c4c0c6f0e4d3b9a1d2e3f4a5b6c7d",
    "changes": [{ "name": "example.test", "type": "MX", "before": { "ttl": 0, "records": [] },
            "after": { "ttl": 3600, "records": ["10 mx.example.test."] }, "state": "applied", "error": null }],
    "servers": [{ "server": "ns1.example.test", "state": "seen", "error": null }], "verified": true
}))]
pub(crate) struct DnsApplied {
    /// Always true; `changes` says what became of each one.
    success: bool,
    /// Domain name.
    domain: String,
    /// The plan.
    plan_id: String,
    /// The changes, in order.
    changes: Vec<AttemptedDnsChange>,
    /// The name servers of the zone.
    servers: Vec<NameServerView>,
    /// Whether all required records are right now.
    verified: bool,
}

impl From<AppliedPlan> for DnsApplied {
    fn from(applied: AppliedPlan) -> Self {
        let AppliedPlan { plan, changes, servers, verified } = applied;
        Self {
            success: true,
            domain: plan.domain.shown().to_owned(),
            plan_id: plan.plan_id,
            changes: changes.into_iter().map(Into::into).collect(),
            servers: servers.into_iter().map(Into::into).collect(),
            verified,
        }
    }
}

documented_errors!(
    Errors,
    documented_with_body,
    [AccessDenied, DomainNotFound, DnsProviderNotFound, DnsPlanChanged, DnsZoneNotFound, DnsRefused, DnsUnavailable]
);

/// Apply a DNS plan
///
/// For admins. Makes the changes of a plan that was seen: `DNS_PLAN_CHANGED` if DNS has moved since, and nothing is changed
/// then. At a name server, each change is one signed update that replaces exactly the records of `before`; the API of a
/// hosted provider cannot promise that. Then waits up to 15 seconds until the
/// name servers of the zone have the records, and verifies the domain.
#[utoipa::path(post, path = "/domains/{domain}/dns/apply", tag = "domains", operation_id = "apply_dns",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    request_body = ApplyDns,
    responses((status = 200, description = "What became of the changes.", body = DnsApplied), Errors))]
pub(crate) async fn apply(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    body: JsonBody<ApplyDns>,
) -> Result<Json<DnsApplied>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let ApplyDns { plan_id, replace } = body.read()?;
    let options = PlanOptions::replacing(replace.unwrap_or_default());
    Ok(Json(state.service().apply_dns(&caller, &name, &plan_id, &options).await?.into()))
}
