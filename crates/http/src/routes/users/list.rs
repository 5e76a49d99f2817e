//! `GET /users`.

use axum::extract::State;
use mailapi_model::DomainName;
use mailapi_service::users::UserQuery;
use serde::Serialize;
use utoipa::ToSchema;

use super::UserRecord;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query, query_parameters};
use crate::state::HttpState;

/// A page of users.
#[derive(Serialize, ToSchema)]
pub(crate) struct UsersListed {
    /// Always true.
    success: bool,
    /// Total number of users.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Users, newest first.
    users: Vec<UserRecord>,
}

query_parameters! {
    /// Filters of the list.
    pub(crate) struct ListUsers {
        /// Only users of this domain.
        domain: Option<DomainName>;
        /// Only enabled users (true) or only disabled users (false).
        active: Option<bool>;
        /// Only users with this text in the address or name.
        q: Option<String>;
        /// Page of the list.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// List users
///
/// Returns users, newest first. Admins see all users. Callers with `manage_users` see the users of those domains,
/// except admins.
#[utoipa::path(get, path = "/users", tag = "users", operation_id = "list_users",
    params(ListUsers),
    responses((status = 200, description = "A page of users.", body = UsersListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<ListUsers>,
) -> Result<Json<UsersListed>, ApiError> {
    let ListUsers { domain, active, q, page } = query.read()?;
    let wanted = UserQuery { domain, active, q: q.filter(|text| !text.is_empty()) };
    let listed = state.service().list_users(&caller, wanted, page).await?;
    Ok(Json(UsersListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        users: listed.items.into_iter().map(Into::into).collect(),
    }))
}
