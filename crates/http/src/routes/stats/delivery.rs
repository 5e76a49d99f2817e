//! `GET /stats/delivery`.

use axum::extract::State;
use mailapi_service::stats::{DeliveryQuery, DeliveryStats};
use serde::Serialize;
use utoipa::ToSchema;

use super::{BreakdownItem, PeriodBody, PeriodParameters, Summary};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{Query, query_parameters};
use crate::shape::{AddressOrDomain, GroupByName};
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

query_parameters! {
    /// Period, filter and grouping.
    pub(crate) struct DeliveryParameters {
        /// Period.
        period: PeriodParameters;
        /// Only mail from this address or domain.
        sender: Option<AddressOrDomain>;
        /// Grouping of `breakdown`; `day` by default.
        group_by: Option<GroupByName>;
    }
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// Get delivery statistics
///
/// Counts recipients by their current status, at the time of the message. Admins see all mail. Other callers see mail
/// of the domains on which they have `view_stats`, and their own.
#[utoipa::path(get, path = "/stats/delivery", tag = "stats", operation_id = "get_delivery_stats",
    params(DeliveryParameters),
    responses((status = 200, description = "The delivery statistics.", body = DeliveryBody), Errors))]
pub(crate) async fn delivery(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<DeliveryParameters>,
) -> Result<Json<DeliveryBody>, ApiError> {
    let DeliveryParameters { period, sender, group_by } = query.read()?;
    let wanted = DeliveryQuery { period: period.into(), sender, group_by: group_by.unwrap_or_default() };
    Ok(Json(state.service().delivery_stats(&caller, wanted).await?.into()))
}
