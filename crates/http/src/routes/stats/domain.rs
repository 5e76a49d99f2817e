//! `GET /stats/domain/{domain}`.

use axum::extract::State;
use mailapi_service::stats::{DomainCount, DomainStats};
use serde::Serialize;
use utoipa::ToSchema;

use super::{PeriodBody, PeriodParameters};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::path::PathParameters;
use crate::query::Query;
use crate::routes::domains::domain_in;
use crate::state::HttpState;

/// Statistics of one domain, counted per recipient.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainStats, example = json!({
    "success": true, "domain": "example.test",
    "period": { "start": "2026-11-13T10:15:30.123Z", "end": "2026-11-20T10:15:30.123Z" },
    "outbound": { "total": 120, "delivered": 110, "bounced": 4, "deferred": 6,
        "top_recipients": [{ "domain": "example.com", "count": 80 }] },
    "inbound": { "total": 300, "accepted": 280, "rejected": 20, "spam": 3,
        "top_senders": [{ "domain": "example.net", "count": 120 }] }
}))]
pub(crate) struct DomainStatsBody {
    /// Always true.
    success: bool,
    /// Domain name.
    domain: String,
    /// Period of the statistics.
    period: PeriodBody,
    /// Outbound mail.
    outbound: Outbound,
    /// Inbound mail.
    inbound: Inbound,
}

/// Mail sent from the domain.
#[derive(Serialize, ToSchema)]
struct Outbound {
    /// Submitted to the mail server.
    total: u64,
    /// Recipients with the status `sent`.
    delivered: u64,
    /// Bounced.
    bounced: u64,
    /// Deferred: temporary failure, still being retried.
    deferred: u64,
    /// Recipient domains with the highest counts, descending.
    top_recipients: Vec<DomainCountBody>,
}

/// Mail received from other servers.
#[derive(Serialize, ToSchema)]
struct Inbound {
    /// Accepted and rejected together.
    total: u64,
    /// Accepted, including spam.
    accepted: u64,
    /// Rejected during SMTP.
    rejected: u64,
    /// Marked as spam.
    spam: u64,
    /// Sender domains with the highest counts of accepted mail, descending.
    top_senders: Vec<DomainCountBody>,
}

/// Number of recipients for one domain.
#[derive(Serialize, ToSchema)]
#[schema(as = DomainCount, example = json!({ "domain": "example.com", "count": 80 }))]
struct DomainCountBody {
    /// Domain name.
    domain: String,
    /// Number of recipients.
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
/// For admins and for callers with `view_stats` on the domain. Returns outbound and inbound mail of the domain.
#[utoipa::path(get, path = "/stats/domain/{domain}", tag = "stats", operation_id = "get_domain_stats",
    params(
        ("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test"),
        PeriodParameters,
    ),
    responses((status = 200, description = "The statistics of the domain.", body = DomainStatsBody), Errors))]
pub(crate) async fn domain(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    path: PathParameters,
    query: Query<PeriodParameters>,
) -> Result<Json<DomainStatsBody>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let period = query.read()?.into();
    Ok(Json(state.service().domain_stats(&caller, &name, period).await?.into()))
}
