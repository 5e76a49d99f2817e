//! `GET /stats/delivery`.

use axum::extract::State;
use mailapi_service::stats::{DeliveryQuery, DeliveryStats};
use serde::Serialize;
use utoipa::ToSchema;

use super::{BreakdownItem, GroupByName, PeriodBody, Summary, period};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::Query;
use crate::shape::{AddressOrDomain, DateOrTime};
use crate::state::HttpState;

/// Delivery statistics.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryStats)]
pub(crate) struct DeliveryBody {
    /// Always true.
    success: bool,
    /// Period of the statistics.
    period: PeriodBody,
    /// Totals of the period.
    summary: Summary,
    /// Counts by day, hour or recipient domain.
    breakdown: Vec<BreakdownItem>,
}

impl From<DeliveryStats> for DeliveryBody {
    fn from(stats: DeliveryStats) -> Self {
        Self {
            success: true,
            period: stats.period.into(),
            summary: stats.summary.into(),
            breakdown: stats.breakdown.into_iter().map(Into::into).collect(),
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// Get delivery statistics
///
/// Counts recipients by their current status, at the time of the message. Admins see all mail. Other callers see mail
/// of the domains on which they have `view_stats`, and their own.
#[utoipa::path(get, path = "/stats/delivery", tag = "stats", operation_id = "get_delivery_stats",
    params(
        ("start_date" = inline(Option<DateOrTime>), Query, description = "Start of the period; 7 days ago by default."),
        ("end_date" = inline(Option<DateOrTime>), Query,
            description = "End of the period, exclusive for a time and inclusive for a date; now by default."),
        ("sender" = inline(Option<AddressOrDomain>), Query, description = "Only mail from this address or domain."),
        ("group_by" = inline(Option<GroupByName>), Query, description = "Grouping of `breakdown`; `day` by default."),
    ),
    responses((status = 200, description = "The delivery statistics.", body = DeliveryBody), Errors))]
pub(crate) async fn delivery(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    mut query: Query,
) -> Result<Json<DeliveryBody>, ApiError> {
    let wanted = DeliveryQuery {
        period: period(&mut query),
        sender: query.parsed("sender"),
        group_by: query.parsed("group_by").unwrap_or_default(),
    };
    query.check()?;
    Ok(Json(state.service().delivery_stats(&caller, wanted).await?.into()))
}
