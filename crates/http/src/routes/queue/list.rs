//! `GET /queue`.

use axum::extract::State;
use mailapi_model::{DomainName, EmailAddress};
use mailapi_service::queue::QueueFilter;
use serde::Serialize;
use utoipa::ToSchema;

use super::QueuedMessageInfo;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query, query_parameters};
use crate::shape::QueueStateName;
use crate::state::HttpState;

/// A page of the queue.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueueListed {
    /// Always true.
    success: bool,
    /// Total number of messages.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Messages, those that wait longest first.
    messages: Vec<QueuedMessageInfo>,
}

query_parameters! {
    /// Filters of the list.
    pub(crate) struct ListQueue {
        /// Only messages from or to an address of this domain.
        domain: Option<DomainName>;
        /// Only messages to this address.
        recipient: Option<EmailAddress>;
        /// Only messages with a recipient in this state.
        state: Option<QueueStateName>;
        /// Page of the list.
        page: PageParameters;
    }
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError, QueueUnsupported, QueueUnavailable]);

/// List the queue
///
/// For admins. Returns messages that the mail server accepted and has not finished, those that wait longest first. One
/// recipient must match all filters. With the built-in mail server, each node has its own queue.
#[utoipa::path(get, path = "/queue", tag = "queue", operation_id = "list_queue", params(ListQueue),
    responses((status = 200, description = "A page of the queue.", body = QueueListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    query: Query<ListQueue>,
) -> Result<Json<QueueListed>, ApiError> {
    let ListQueue { domain, recipient, state: wanted, page } = query.read()?;
    let filter = QueueFilter { domain, recipient, state: wanted };
    let listed = state.service().list_queue(&caller, &filter, page).await?;
    Ok(Json(QueueListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        messages: listed.items.into_iter().map(Into::into).collect(),
    }))
}
