//! `GET /stats/domains`.

use axum::extract::State;
use mailapi_service::stats::{DomainDelivery, delivery_rate};
use serde::Serialize;
use utoipa::ToSchema;

use super::{PeriodBody, PeriodParameters};
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query, query_parameters};
use crate::state::HttpState;

/// A page of statistics by sender domain.
#[derive(Serialize, ToSchema)]
pub(crate) struct DomainsStats {
    /// Always true.
    success: bool,
    /// Period of the statistics.
    period: PeriodBody,
    /// Total number of domains.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Domains, newest first.
    domains: Vec<DomainSummary>,
}

/// Delivery statistics of one sender domain.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
        "domain": "example.test", "total_sent": 120, "delivered": 110, "bounced": 4, "deferred": 6, "rejected": 1,
    "delivery_rate": 95.65
}))]
struct DomainSummary {
    /// Sender domain.
    domain: String,
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
    /// Percentage of delivered recipients among those with a final status, with two decimals; 0 if there are none.
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

query_parameters! {
    /// Period and page.
    pub(crate) struct ListDomainStats {
        /// Period.
        period: PeriodParameters;
        /// Page of the list.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [ValidationError]);

/// List delivery statistics by domain
///
/// Returns domains, newest first. Admins see all domains; other callers see those on which they have `view_stats`.
#[utoipa::path(get, path = "/stats/domains", tag = "stats", operation_id = "list_domain_stats",
    params(ListDomainStats),
    responses((status = 200, description = "The statistics of each domain.", body = DomainsStats), Errors))]
pub(crate) async fn domains(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    query: Query<ListDomainStats>,
) -> Result<Json<DomainsStats>, ApiError> {
    let ListDomainStats { period, page } = query.read()?;
    let stats = state.service().domains_stats(&caller, period.into(), page).await?;
    Ok(Json(DomainsStats {
        success: true,
        period: stats.period.into(),
        total: stats.domains.total,
        limit: page.limit(),
        offset: page.offset(),
        domains: stats.domains.items.into_iter().map(Into::into).collect(),
    }))
}
