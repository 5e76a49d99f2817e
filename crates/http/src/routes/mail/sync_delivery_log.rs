//! `GET /mail/delivery-log/sync`.

use axum::extract::State;
use mailapi_service::mail::Synced;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::shape::Moment;
use crate::state::HttpState;

/// What the mail server had to report.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryLogSynced, example = json!({
    "success": true, "lines_read": 12, "entries_added": 3, "messages_updated": 2,
    "last_event_at": "2026-11-20T10:15:30.300Z"
}))]
pub(crate) struct SyncedRecord {
    /// Always true.
    success: bool,
    /// Records of the mail server's log that were looked at.
    lines_read: u64,
    /// Entries that were new.
    entries_added: u64,
    /// Messages sent through this interface that they were about.
    messages_updated: u64,
    /// When the newest known event happened; null when there is none.
    #[schema(required)]
    last_event_at: Option<Moment>,
}

impl From<Synced> for SyncedRecord {
    fn from(synced: Synced) -> Self {
        Self {
            success: true,
            lines_read: synced.lines_read,
            entries_added: synced.entries_added,
            messages_updated: synced.messages_updated,
            last_event_at: synced.last_event_at.map(Moment),
        }
    }
}

documented_errors!(Errors, documented, [AccessDenied]);

/// Bring the delivery log up to date
///
/// For admins. Reads what is new in the mail server's log now; the same happens in the background all the time.
#[utoipa::path(get, path = "/mail/delivery-log/sync", tag = "mail", operation_id = "sync_delivery_log",
    responses((status = 200, description = "The log is up to date.", body = SyncedRecord), Errors))]
pub(crate) async fn sync_delivery_log(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
) -> Result<Json<SyncedRecord>, ApiError> {
    Ok(Json(state.service().sync_delivery_log(&caller).await?.into()))
}
