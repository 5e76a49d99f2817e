//! `GET /stats/domains`.

use axum::extract::State;
use mailapi_service::stats::{DomainDelivery, delivery_rate};
use serde::Serialize;
use utoipa::ToSchema;

use super::{PeriodBody, period};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::Query;
use crate::shape::{DateOrTime, EndDateOrTime, PageParameters};
use crate::state::HttpState;

/// What became of the mail of several domains.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainsStats {
    /// Always true.
    success: bool,
    /// When it was sent.
    period: PeriodBody,
    /// Domains of the whole list.
    total: u64,
    /// The limit of this page.
    limit: u32,
    /// How many domains come before this page.
    offset: u64,
    /// The domains, newest first.
    domains: Vec<DomainSummary>,
}

/// What became of the mail of one domain.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "domain": "example.org", "total_sent": 120, "delivered": 110, "bounced": 4, "deferred": 6, "rejected": 1,
    "delivery_rate": 95.65
}))]
struct DomainSummary {
    /// The domain from which it was sent.
    domain: String,
    /// Recipients handed over to the mail server.
    total_sent: u64,
    /// Delivered.
    delivered: u64,
    /// Given back as undeliverable.
    bounced: u64,
    /// Failed for now, and to be tried again.
    deferred: u64,
    /// Refused by the mail server at submission, so not handed over.
    rejected: u64,
    /// How many percent of those that have come to an end were delivered, with two decimals; 0 when there are none.
    delivery_rate: f64,
}

impl From<DomainDelivery> for DomainSummary {
    fn from(DomainDelivery { domain, counts }: DomainDelivery) -> Self {
        Self {
            domain: domain.shown().to_owned(),
            total_sent: counts.sent,
            delivered: counts.delivered,
            bounced: counts.bounced,
            deferred: counts.deferred,
            rejected: counts.rejected,
            delivery_rate: delivery_rate(&counts),
        }
    }
}

documented_errors!(Errors, documented, [ValidationError]);

/// Get delivery statistics by domain
///
/// Newest domain first. An admin sees all domains; others see those where they have `view_stats`.
#[utoipa::path(get, path = "/stats/domains", tag = "stats", operation_id = "list_domain_stats",
    params(
        ("start_date" = inline(Option<DateOrTime>), Query, description = "Where the period begins; by default 7 days ago.",
            example = "2026-11-13"),
        ("end_date" = inline(Option<EndDateOrTime>), Query,
            description = "Where the period ends, a date with its day; by default now."),
        PageParameters,
    ),
    responses((status = 200, description = "What became of the mail.", body = DomainsStats), Errors))]
pub(crate) async fn domains(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    mut query: Query,
) -> Result<Json<DomainsStats>, ApiError> {
    let (period, page) = (period(&mut query), query.page());
    query.check()?;
    let stats = state.service().domains_stats(&caller, period, page).await?;
    Ok(Json(DomainsStats {
        success: true,
        period: stats.period.into(),
        total: stats.domains.total,
        limit: page.limit(),
        offset: page.offset(),
        domains: stats.domains.items.into_iter().map(Into::into).collect(),
    }))
}
