//! `GET /stats/users/{email}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{BreakdownItem, PeriodBody, PeriodParameters, Summary};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::{Query, query_parameters};
use crate::routes::users::user_in;
use crate::shape::GroupByName;
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

query_parameters! {
    /// Period and grouping.
    pub(crate) struct UserStatsParameters {
        /// Period.
        period: PeriodParameters;
        /// Grouping of `breakdown`; `day` by default.
        group_by: Option<GroupByName>;
    }
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, ValidationError]);

/// Get a user's statistics
///
/// For the user, callers with `view_stats` on the domain, and admins. Counts mail sent from the user's address.
#[utoipa::path(get, path = "/stats/users/{email}", tag = "stats", operation_id = "get_user_stats",
    params(
        ("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test"),
        UserStatsParameters,
    ),
    responses((status = 200, description = "The statistics of the user.", body = UserStats), Errors))]
pub(crate) async fn users(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<UserStatsParameters>,
) -> Result<Json<UserStats>, ApiError> {
    let email = user_in(&path, &caller)?;
    let UserStatsParameters { period, group_by } = query.read()?;
    let group_by = group_by.unwrap_or_default();
    let stats = state.service().user_stats(&caller, &email, period.into(), group_by).await?;
    Ok(Json(UserStats {
        success: true,
        email: email.shown().to_owned(),
        period: stats.period.into(),
        summary: stats.summary.into(),
        breakdown: stats.breakdown.into_iter().map(Into::into).collect(),
    }))
}
