//! `GET /domains/{domain}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{DomainRecord, domain_in};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::state::HttpState;

/// One domain.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainFound {
    /// Always true.
    pub(super) success: bool,
    /// Domain record.
    pub(super) domain: DomainRecord,
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound]);

/// Get a domain
///
/// For admins and for callers with `manage_domains` on the domain. Returns the domain record.
#[utoipa::path(get, path = "/domains/{domain}", tag = "domains", operation_id = "get_domain",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    responses((status = 200, description = "The domain.", body = DomainFound), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
) -> Result<Json<DomainFound>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let domain = state.service().get_domain(&caller, &name).await?;
    Ok(Json(DomainFound { success: true, domain: domain.into() }))
}
