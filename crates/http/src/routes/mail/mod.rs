//! Sending, message status and the delivery log.

mod delivery_log;
mod list_inbox;
mod list_sent;
pub(crate) mod send;
mod status;
mod sync_delivery_log;
mod timeline;

use crate::router::{Routes, api_routes as routes};

/// Every operation of this area.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(send::send))
        .routes(routes!(list_sent::list_sent))
        .routes(routes!(list_inbox::list_inbox))
        .routes(routes!(delivery_log::delivery_log))
        .routes(routes!(sync_delivery_log::sync_delivery_log))
        .routes(routes!(status::status))
        .routes(routes!(timeline::timeline))
}
