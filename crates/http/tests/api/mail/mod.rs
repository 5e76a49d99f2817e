mod delivery_log;
mod list_inbox;
mod list_sent;
mod send;
mod status;
mod sync_delivery_log;
