//! `GET /stats/domain/{domain}`.

use axum::extract::State;
use mailapi_service::stats::{DomainCount, DomainStats};
use serde::Serialize;
use utoipa::ToSchema;

use super::{PeriodBody, period};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::Query;
use crate::routes::domains::domain_in;
use crate::shape::{DateOrTime, EndDateOrTime};
use crate::state::HttpState;

/// The mail of one domain, counted per recipient.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainStats, example = json!({
    "success": true, "domain": "example.org",
    "period": { "start": "2026-11-13T10:15:30.123Z", "end": "2026-11-20T10:15:30.123Z" },
    "outbound": { "total": 120, "delivered": 110, "bounced": 4, "deferred": 6,
        "top_recipients": [{ "domain": "example.com", "count": 80 }] },
    "inbound": { "total": 300, "accepted": 280, "rejected": 20, "spam": 3,
        "top_senders": [{ "domain": "example.net", "count": 120 }] }
}))]
pub(crate) struct DomainStatsBody {
    /// Always true.
    success: bool,
    /// The domain.
    domain: String,
    /// When the mail was sent or received.
    period: PeriodBody,
    /// What was sent from it.
    outbound: Outbound,
    /// What came for it from outside.
    inbound: Inbound,
}

/// Mail from a domain.
#[derive(Serialize, ToSchema)]
struct Outbound {
    /// Handed over to the mail server.
    total: u64,
    /// Delivered.
    delivered: u64,
    /// Given back as undeliverable.
    bounced: u64,
    /// Failed for now, and to be tried again.
    deferred: u64,
    /// The domains to which most was sent, the most first.
    top_recipients: Vec<DomainCountBody>,
}

/// Mail from outside for a domain.
#[derive(Serialize, ToSchema)]
struct Inbound {
    /// All that came.
    total: u64,
    /// Taken in; the spam is among it.
    accepted: u64,
    /// Refused at the door.
    rejected: u64,
    /// Marked as spam.
    spam: u64,
    /// The domains from which most was taken in, the most first.
    top_senders: Vec<DomainCountBody>,
}

/// How much mail went to or came from a domain.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainCount, example = json!({ "domain": "example.com", "count": 80 }))]
struct DomainCountBody {
    /// The domain.
    domain: String,
    /// How many recipients.
    count: u64,
}

impl From<DomainCount> for DomainCountBody {
    fn from(DomainCount { domain, count }: DomainCount) -> Self {
        Self { domain: domain.shown().to_owned(), count }
    }
}

impl From<DomainStats> for DomainStatsBody {
    fn from(stats: DomainStats) -> Self {
        Self {
            success: true,
            domain: stats.domain.shown().to_owned(),
            period: stats.period.into(),
            outbound: Outbound {
                total: stats.outbound.sent,
                delivered: stats.outbound.delivered,
                bounced: stats.outbound.bounced,
                deferred: stats.outbound.deferred,
                top_recipients: stats.top_recipients.into_iter().map(Into::into).collect(),
            },
            inbound: Inbound {
                total: stats.inbound.accepted + stats.inbound.rejected,
                accepted: stats.inbound.accepted,
                rejected: stats.inbound.rejected,
                spam: stats.inbound.spam,
                top_senders: stats.top_senders.into_iter().map(Into::into).collect(),
            },
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound, ValidationError]);

/// Get a domain's statistics
///
/// For admins and for callers with `view_stats` on the domain.
#[utoipa::path(get, path = "/stats/domain/{domain}", tag = "stats", operation_id = "get_domain_stats",
    params(
        ("domain" = String, Path, format = IdnHostname, description = "The domain's name.",
            example = "example.org"),
        ("start_date" = inline(Option<DateOrTime>), Query, description = "Where the period begins; by default 7 days ago.",
            example = "2026-11-13"),
        ("end_date" = inline(Option<EndDateOrTime>), Query,
            description = "Where the period ends, a date with its day; by default now."),
    ),
    responses((status = 200, description = "The domain's mail.", body = DomainStatsBody), Errors))]
pub(crate) async fn domain(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    mut query: Query,
) -> Result<Json<DomainStatsBody>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let period = period(&mut query);
    query.check()?;
    Ok(Json(state.service().domain_stats(&caller, &name, period).await?.into()))
}
