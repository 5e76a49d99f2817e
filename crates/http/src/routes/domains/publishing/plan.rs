//! `GET /domains/{domain}/dns/plan`.

use axum::extract::State;
use mailapi_service::domains::PlanOptions;

use super::shape::PlanRecord;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::{Query, query_parameters};
use crate::routes::domains::domain_in;
use crate::state::HttpState;

query_parameters! {
    /// What a plan may do.
    pub(crate) struct PlanDns {
        /// Purposes of records to replace although they lead elsewhere, separated by commas, such as `MX,DMARC`.
        replace: Option<String>;
    }
}

documented_errors!(
    Errors,
    documented,
    [AccessDenied, DomainNotFound, DnsProviderNotFound, ValidationError, DnsZoneNotFound, DnsRefused, DnsUnavailable]
);

/// Plan the DNS changes of a domain
///
/// For admins. Asks the provider that takes changes, and changes nothing. A plan adds missing records, and adds this
/// server to the SPF policy. Records that lead elsewhere are conflicts, unless `replace` has their purpose.
#[utoipa::path(get, path = "/domains/{domain}/dns/plan", tag = "domains", operation_id = "plan_dns",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test"), PlanDns),
    responses((status = 200, description = "The plan.", body = PlanRecord), Errors))]
pub(crate) async fn plan(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    query: Query<PlanDns>,
) -> Result<Json<PlanRecord>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let options = PlanOptions::replacing(query.read()?.replace.unwrap_or_default().split(','));
    Ok(Json(state.service().plan_dns(&caller, &name, &options).await?.into()))
}
