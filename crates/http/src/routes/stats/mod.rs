//! Statistics of delivery.

mod delivery;
mod domain;
mod domains;
mod users;

use mailapi_service::stats::{BreakdownEntry, Bucket, Period, PeriodQuery, SentCounts, StatsError, delivery_rate};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

use crate::error::{ApiError, ErrorCode};
use crate::query::Query;
use crate::router::api_routes as routes;
use crate::shape::Moment;
use crate::state::HttpState;

/// Every operation of this area.
pub(crate) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(delivery::delivery))
        .routes(routes!(domains::domains))
        .routes(routes!(domain::domain))
        .routes(routes!(users::users))
}

/// When the mail was sent or received. Counts are kept by the hour: the hours in which the period begins and ends count
/// as a whole.
#[derive(Serialize, ToSchema)]
#[schema(as = StatsPeriod, example = json!({
    "start": "2026-11-13T10:15:30.123Z", "end": "2026-11-20T10:15:30.123Z"
}))]
struct PeriodBody {
    /// Where it begins.
    start: Moment,
    /// Where it ends.
    end: Moment,
}

impl From<Period> for PeriodBody {
    fn from(period: Period) -> Self {
        Self { start: period.start.into(), end: period.end.into() }
    }
}

/// What became of recipients.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliverySummary, example = json!({
    "total_sent": 120, "delivered": 110, "bounced": 4, "deferred": 6, "rejected": 1, "delivery_rate": 95.65
}))]
struct Summary {
    /// Handed over to the mail server.
    total_sent: u64,
    /// Delivered.
    delivered: u64,
    /// Given back as undeliverable.
    bounced: u64,
    /// Failed for now, and to be tried again.
    deferred: u64,
    /// Refused by the mail server at submission, so not handed over.
    rejected: u64,
    /// How many percent of those that have come to an end were delivered: delivered / (delivered + bounced + rejected),
    /// with two decimals; 0 when there are none.
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

/// One part of the period, or one recipient domain.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "date": "2026-11-20", "sent": 20, "delivered": 18, "bounced": 1, "deferred": 1 }))]
struct BreakdownItem {
    /// The day, `2026-11-20`; the hour, `2026-11-20T10:00:00Z`; or the recipients' domain.
    date: String,
    /// With `group_by=domain`: the recipients' domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    domain: Option<String>,
    /// Handed over to the mail server.
    sent: u64,
    /// Delivered.
    delivered: u64,
    /// Given back as undeliverable.
    bounced: u64,
    /// Failed for now, and to be tried again.
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

/// What an answer is broken down by.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the names in the document; they are read as the service's own `GroupBy`")]
enum GroupByName {
    /// Days of UTC, empty ones too.
    Day,
    /// Hours of UTC, empty ones too.
    Hour,
    /// The recipients' domains, the largest first.
    Domain,
}

/// `start_date` and `end_date`.
fn period(query: &mut Query) -> PeriodQuery {
    PeriodQuery { start: query.start_date(), end: query.end_date() }
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
