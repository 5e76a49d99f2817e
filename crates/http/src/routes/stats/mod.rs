//! Delivery statistics.

mod delivery;
mod domain;
mod domains;
mod users;

use mailapi_service::stats::{BreakdownEntry, Bucket, Period, PeriodQuery, SentCounts, StatsError, delivery_rate};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ErrorCode};
use crate::query::{EndDate, StartDate, query_parameters};
use crate::router::{Routes, api_routes as routes};
use crate::shape::Moment;

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(delivery::delivery))
        .routes(routes!(domains::domains))
        .routes(routes!(domain::domain))
        .routes(routes!(users::users))
}

/// Period of the statistics. Counts are stored by the hour, so the first and the last hour count as a whole.
#[derive(Serialize, ToSchema)]
#[schema(as = StatsPeriod, example = json!({
    "start": "2026-11-13T10:15:30.123Z", "end": "2026-11-20T10:15:30.123Z"
}))]
struct PeriodBody {
    /// Start of the period.
    start: Moment,
    /// End of the period.
    end: Moment,
}

impl From<Period> for PeriodBody {
    fn from(period: Period) -> Self {
        Self { start: period.start.into(), end: period.end.into() }
    }
}

/// Delivery totals.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliverySummary, example = json!({
    "total_sent": 120, "delivered": 110, "bounced": 4, "deferred": 6, "rejected": 1, "delivery_rate": 95.65
}))]
struct Summary {
    /// Recipients submitted to the mail server.
    total_sent: u64,
    /// Recipients with the status `sent`.
    delivered: u64,
    /// Bounced.
    bounced: u64,
    /// Deferred: temporary failure, still being retried.
    deferred: u64,
    /// Rejected by the mail server during submission.
    rejected: u64,
    /// Percentage delivered / (delivered + bounced + rejected), with two decimals; 0 if no recipient has a final
    /// status.
    delivery_rate: f64,
}

impl From<SentCounts> for Summary {
    fn from(counts: SentCounts) -> Self {
        Self {
            total_sent: counts.sent,
            delivered: counts.delivered,
            bounced: counts.bounced,
            deferred: counts.deferred,
            rejected: counts.rejected,
            delivery_rate: delivery_rate(&counts),
        }
    }
}

/// Counts of one day, one hour or one recipient domain.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "date": "2026-11-20", "sent": 20, "delivered": 18, "bounced": 1, "deferred": 1 }))]
struct BreakdownItem {
    /// Day (`2026-11-20`), hour (`2026-11-20T10:00:00Z`) or recipient domain.
    date: String,
    /// With `group_by=domain`: recipient domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    domain: Option<String>,
    /// Recipients submitted to the mail server.
    sent: u64,
    /// Recipients with the status `sent`.
    delivered: u64,
    /// Bounced.
    bounced: u64,
    /// Deferred: temporary failure, still being retried.
    deferred: u64,
}

impl From<BreakdownEntry> for BreakdownItem {
    fn from(BreakdownEntry { bucket, counts }: BreakdownEntry) -> Self {
        Self {
            date: bucket.to_string(),
            domain: matches!(bucket, Bucket::Domain(_)).then(|| bucket.to_string()),
            sent: counts.sent,
            delivered: counts.delivered,
            bounced: counts.bounced,
            deferred: counts.deferred,
        }
    }
}

query_parameters! {
    /// Period of the statistics.
    struct PeriodParameters {
        /// Start of the period; 7 days ago by default.
        start_date: Option<StartDate>;
        /// End of the period, exclusive for a time and inclusive for a date; now by default.
        end_date: Option<EndDate>;
    }
}

impl From<PeriodParameters> for PeriodQuery {
    fn from(PeriodParameters { start_date: start, end_date: end }: PeriodParameters) -> Self {
        Self { start, end }
    }
}

impl From<StatsError> for ApiError {
    fn from(error: StatsError) -> Self {
        match error {
            StatsError::Denied(denied) => denied.into(),
            StatsError::DomainNotFound => ErrorCode::DomainNotFound.into(),
            StatsError::UserNotFound => ErrorCode::UserNotFound.into(),
            StatsError::Invalid(violations) => violations.into(),
            StatsError::Unavailable(error) => error.into(),
        }
    }
}
