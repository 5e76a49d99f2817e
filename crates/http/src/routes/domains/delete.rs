//! `DELETE /domains/{domain}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::domain_in;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::{Query, query_parameters};
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The domain was deleted.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "The domain was deleted.", "domain": "example.test" }))]
pub(crate) struct DomainDeleted {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Domain name.
    domain: String,
}

query_parameters! {
    /// Consent to delete users.
    pub(crate) struct DeleteDomain {
        /// Also delete the domain's users and all their mail; false by default.
        force: Option<bool>;
    }
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound, DomainNotEmpty, ValidationError, ImapError]);

/// Delete a domain
///
/// For admins. A domain that has users is not deleted (`DOMAIN_NOT_EMPTY`) unless `force` is true. `force` also deletes
/// the users with their tokens, permissions and mail. A domain with users of an external user database is never
/// deleted.
#[utoipa::path(delete, path = "/domains/{domain}", tag = "domains", operation_id = "delete_domain",
    params(
        ("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test"),
        DeleteDomain,
    ),
    responses((status = 200, description = "The domain was deleted.", body = DomainDeleted), Errors))]
pub(crate) async fn delete(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    query: Query<DeleteDomain>,
) -> Result<Json<DomainDeleted>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let force = query.read()?.force.unwrap_or(false);
    let (service, domain) = (state.service().clone(), name.shown().to_owned());
    to_the_end(async move { service.delete_domain(&caller, &name, force).await }).await??;
    Ok(Json(DomainDeleted { success: true, message: "The domain was deleted.", domain }))
}
