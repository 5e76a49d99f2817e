//! `GET /domains/{domain}/dns/history`.

use axum::extract::State;
use mailapi_model::RecordedChange;
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::{DnsChangeStateName, DnsSetChange};
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::{PageParameters, Query};
use crate::routes::domains::domain_in;
use crate::shape::Moment;
use crate::state::HttpState;

/// A page of changes.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "total": 1, "limit": 50, "offset": 0,
    "changes": [{
        "id": 1, "plan_id": "5f2c4c0c6f0e4d3b9a1d2e3f4a5b6c7d", "name": "example.test", "type": "MX", "before": { "ttl": 0, "records": [] },
            "after": { "ttl": 3600, "records": ["10 mx.example.test."] }, "state": "applied",
        "at": "2026-11-20T10:15:30.123Z"
    }]
}))]
pub(crate) struct DnsHistory {
    /// Always true.
    success: bool,
    /// Total number of changes.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Changes, newest first.
    changes: Vec<RecordedDnsChange>,
}

/// A change that was sent to the provider.
#[derive(Serialize, ToSchema)]
pub(crate) struct RecordedDnsChange {
    /// Number of the change.
    id: i64,
    /// The plan that it belongs to.
    plan_id: String,
    #[serde(flatten)]
    change: DnsSetChange,
    /// What became of it.
    #[schema(value_type = DnsChangeStateName)]
    state: &'static str,
    /// Time of this state.
    at: Moment,
}

impl From<RecordedChange> for RecordedDnsChange {
    fn from(recorded: RecordedChange) -> Self {
        let RecordedChange { id, plan, change, state, at } = recorded;
        Self { id, plan_id: plan, change: change.into(), state: state.as_str(), at: at.into() }
    }
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound, ValidationError]);

/// List the DNS changes of a domain
///
/// For admins. Returns the newest 200 changes that were sent to the provider, newest first. Changes without a known answer
/// are looked up first, for up to three seconds.
#[utoipa::path(get, path = "/domains/{domain}/dns/history", tag = "domains", operation_id = "list_dns_changes",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test"),
        PageParameters),
    responses((status = 200, description = "A page of changes.", body = DnsHistory), Errors))]
pub(crate) async fn history(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    query: Query<PageParameters>,
) -> Result<Json<DnsHistory>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let page = query.read()?;
    let listed = state.service().dns_history(&caller, &name, page).await?;
    Ok(Json(DnsHistory {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        changes: listed.items.into_iter().map(Into::into).collect(),
    }))
}
