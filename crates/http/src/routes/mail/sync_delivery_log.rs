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

/// Result of a delivery log sync.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryLogSynced, example = json!({
    "success": true, "lines_read": 12, "entries_added": 3, "messages_updated": 2,
    "last_event_at": "2026-11-20T10:15:30.300Z"
}))]
pub(crate) struct SyncedRecord {
    /// Always true.
    success: bool,
    /// Number of records read from the mail server's log.
    lines_read: u64,
    /// Number of new entries.
    entries_added: u64,
    /// Number of messages sent through this API that the new entries concern.
    messages_updated: u64,
    /// Time of the latest event; null if there is none.
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

/// Sync the delivery log
///
/// For admins. Reads new records of the mail server's log at once. This also happens continuously in the background.
#[utoipa::path(get, path = "/mail/delivery-log/sync", tag = "mail", operation_id = "sync_delivery_log",
    responses((status = 200, description = "The delivery log is up to date.", body = SyncedRecord), Errors))]
pub(crate) async fn sync_delivery_log(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
) -> Result<Json<SyncedRecord>, ApiError> {
    Ok(Json(state.service().sync_delivery_log(&caller).await?.into()))
}
