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
use crate::shape::DateOrTime;
use crate::state::HttpState;

/// Delivery statistics of one user.
#[derive(Serialize, ToSchema)]
pub(crate) struct UserStats {
    /// Always true.
    success: bool,
    /// User's address.
    email: String,
    /// Period of the statistics.
    period: PeriodBody,
    /// Totals of the period.
    summary: Summary,
    /// Counts by day, hour or recipient domain.
    breakdown: Vec<BreakdownItem>,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, ValidationError]);

/// Get a user's statistics
///
/// For the user, callers with `view_stats` on the domain, and admins. Counts mail sent from the user's address.
#[utoipa::path(get, path = "/stats/users/{email}", tag = "stats", operation_id = "get_user_stats",
    params(
        ("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test"),
        ("start_date" = inline(Option<DateOrTime>), Query, description = "Start of the period; 7 days ago by default."),
        ("end_date" = inline(Option<DateOrTime>), Query,
            description = "End of the period, exclusive for a time and inclusive for a date; now by default."),
        ("group_by" = inline(Option<GroupByName>), Query, description = "Grouping of `breakdown`; `day` by default."),
    ),
    responses((status = 200, description = "The statistics of the user.", body = UserStats), Errors))]
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
