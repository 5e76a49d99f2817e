mod delivery_log;
mod list_inbox;
mod list_sent;
mod send;
mod send_large;
mod status;
mod sync_delivery_log;
mod timeline;
