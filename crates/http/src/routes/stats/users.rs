//! `GET /stats/users/{email}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{BreakdownItem, GroupByName, PeriodBody, Summary, period};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::Query;
use crate::routes::users::user_in;
use crate::shape::{DateOrTime, EndDateOrTime};
use crate::state::HttpState;

/// What became of the mail of one user.
#[derive(Serialize, ToSchema)]
pub(crate) struct UserStats {
    /// Always true.
    success: bool,
    /// The user's address.
    email: String,
    /// When it was sent.
    period: PeriodBody,
    /// All of it.
    summary: Summary,
    /// Its parts.
    breakdown: Vec<BreakdownItem>,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, ValidationError]);

/// Get a user's statistics
///
/// What became of the mail that is sent from the user's address: for the user, for callers with `view_stats` on the
/// domain, and for admins.
#[utoipa::path(get, path = "/stats/users/{email}", tag = "stats", operation_id = "get_user_stats",
    params(
        ("email" = String, Path, format = IdnEmail, description = "The user's address.",
            example = "ann@example.org"),
        ("start_date" = inline(Option<DateOrTime>), Query, description = "Where the period begins; by default 7 days ago.",
            example = "2026-11-13"),
        ("end_date" = inline(Option<EndDateOrTime>), Query,
            description = "Where the period ends, a date with its day; by default now."),
        ("group_by" = inline(Option<GroupByName>), Query, description = "What the parts are; by default days."),
    ),
    responses((status = 200, description = "What became of the mail.", body = UserStats), Errors))]
pub(crate) async fn users(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    mut query: Query,
) -> Result<Json<UserStats>, ApiError> {
    let email = user_in(&path, &caller)?;
    let (period, group_by) = (period(&mut query), query.parsed("group_by").unwrap_or_default());
    query.check()?;
    let stats = state.service().user_stats(&caller, &email, period, group_by).await?;
    Ok(Json(UserStats {
        success: true,
        email: email.shown().to_owned(),
        period: stats.period.into(),
        summary: stats.summary.into(),
        breakdown: stats.breakdown.into_iter().map(Into::into).collect(),
    }))
}
