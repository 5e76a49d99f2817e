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
use crate::shape::{AddressOrDomain, DateOrTime, EndDateOrTime};
use crate::state::HttpState;

/// What became of sent mail.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryStats)]
pub(crate) struct DeliveryBody {
    /// Always true.
    success: bool,
    /// When it was sent.
    period: PeriodBody,
    /// All of it.
    summary: Summary,
    /// Its parts.
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
/// Counts recipients, each in its present state, under the time of the message. An admin sees all mail; others see that
/// of the domains where they have `view_stats`, and always their own.
#[utoipa::path(get, path = "/stats/delivery", tag = "stats", operation_id = "get_delivery_stats",
    params(
        ("start_date" = inline(Option<DateOrTime>), Query, description = "Where the period begins; by default 7 days ago.",
            example = "2026-11-13"),
        ("end_date" = inline(Option<EndDateOrTime>), Query,
            description = "Where the period ends, a date with its day; by default now."),
        ("sender" = inline(Option<AddressOrDomain>), Query, description = "Only mail from this address or this domain.",
            example = "example.org"),
        ("group_by" = inline(Option<GroupByName>), Query, description = "What the parts are; by default days."),
    ),
    responses((status = 200, description = "What became of the mail.", body = DeliveryBody), Errors))]
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
