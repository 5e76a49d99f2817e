//! `GET /users`.

use axum::extract::State;
use mailapi_service::users::UserQuery;
use serde::Serialize;
use utoipa::ToSchema;

use super::UserRecord;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::Query;
use crate::shape::PageParameters;
use crate::state::HttpState;

/// A page of users.
#[derive(Serialize, ToSchema)]
pub(crate) struct UsersListed {
    /// Always true.
    success: bool,
    /// Users of the whole list.
    total: u64,
    /// The limit of this page.
    limit: u32,
    /// How many users come before this page.
    offset: u64,
    /// The users, newest first.
    users: Vec<UserRecord>,
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// List users
///
/// Newest first. An admin sees all; callers with `manage_users` see the users of those domains, less the admins.
#[utoipa::path(get, path = "/users", tag = "users", operation_id = "list_users",
    params(
        ("domain" = Option<String>, Query, format = IdnHostname, description = "Only users of this domain.",
            example = "example.org"),
        ("active" = Option<bool>, Query, description = "Only enabled, or only disabled users."),
        ("q" = Option<String>, Query, description = "Only users with this text in the address or the name."),
        PageParameters,
    ),
    responses((status = 200, description = "A page of users.", body = UsersListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    mut query: Query,
) -> Result<Json<UsersListed>, ApiError> {
    let wanted = UserQuery {
        domain: query.parsed("domain"),
        active: query.flag("active"),
        q: query.text("q").filter(|text| !text.is_empty()).map(ToOwned::to_owned),
    };
    let page = query.page();
    query.check()?;
    let listed = state.service().list_users(&caller, wanted, page).await?;
    Ok(Json(UsersListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        users: listed.items.into_iter().map(Into::into).collect(),
    }))
}
