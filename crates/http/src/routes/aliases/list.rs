//! `GET /aliases`.

use axum::extract::State;
use mailapi_model::DomainName;
use mailapi_service::aliases::AliasQuery;
use serde::Serialize;
use utoipa::ToSchema;

use super::AliasRecord;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query, query_parameters};
use crate::state::HttpState;

/// A page of aliases.
#[derive(Serialize, ToSchema)]
pub(crate) struct AliasesListed {
    /// Always true.
    success: bool,
    /// Total number of aliases.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Aliases, newest first.
    aliases: Vec<AliasRecord>,
}

query_parameters! {
    /// Filters of the list.
    pub(crate) struct ListAliases {
        /// Only aliases of this domain.
        domain: Option<DomainName>;
        /// Only aliases with this text in the address or in a member's address.
        q: Option<String>;
        /// Page of the list.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// List aliases
///
/// Returns aliases, newest first. Admins see all aliases. Callers with `manage_users` see the aliases of those domains.
#[utoipa::path(get, path = "/aliases", tag = "aliases", operation_id = "list_aliases",
    params(ListAliases),
    responses((status = 200, description = "A page of aliases.", body = AliasesListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<ListAliases>,
) -> Result<Json<AliasesListed>, ApiError> {
    let ListAliases { domain, q, page } = query.read()?;
    let wanted = AliasQuery { domain, q: q.filter(|text| !text.is_empty()) };
    let listed = state.service().list_aliases(&caller, wanted, page).await?;
    Ok(Json(AliasesListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        aliases: listed.items.into_iter().map(Into::into).collect(),
    }))
}
