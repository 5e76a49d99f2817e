//! `PUT /aliases/{address}`.

use axum::extract::State;
use mailapi_model::{AliasChange, EmailAddress};

use super::AliasManager;
use super::get::AliasFound;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::{AtLeastOne, request_body};
use crate::routes::to_the_end;
use crate::state::HttpState;

request_body! {
    /// Changes to an alias. Absent members stay unchanged.
    pub(crate) struct UpdateAliasBody as "UpdateAlias" {
        /// Addresses that receive the mail, instead of all former ones; at most 1000.
        members: Option<AtLeastOne<EmailAddress>>,
        /// Users who may send from the alias, instead of all former ones; at most 100.
        senders: Option<Vec<EmailAddress>>,
        /// Whether the alias accepts mail. Mail to an inactive alias goes to the catch-all, or is refused without one.
        active: Option<bool>,
    }
    example { "members": ["alice@example.test"], "active": true }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, AliasNotFound, ImapError]);

/// Update an alias
///
/// For admins and for callers with `manage_users` on the domain of the alias.
#[utoipa::path(put, path = "/aliases/{address}", tag = "aliases", operation_id = "update_alias",
    params(("address" = String, Path, format = IdnEmail, description = "Address of the alias.", example = "team@example.test")),
    request_body = UpdateAliasBody,
    responses((status = 200, description = "The updated alias.", body = AliasFound), Errors))]
pub(crate) async fn update(
    State(state): State<HttpState>,
    AliasManager { caller, address }: AliasManager,
    body: JsonBody<UpdateAliasBody>,
) -> Result<Json<AliasFound>, ApiError> {
    let UpdateAliasBody { members, senders, active } = body.read()?;
    let (service, change) = (state.service().clone(), AliasChange { members, senders, active });
    let alias = to_the_end(async move { service.update_alias(&caller, &address, change).await }).await??;
    Ok(Json(AliasFound { success: true, alias: alias.into() }))
}
