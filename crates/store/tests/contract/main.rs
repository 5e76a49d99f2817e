//! The contract of the store, tested on every engine.

mod accounts;
mod aliases;
mod app_passwords;
mod delivery_log;
mod directory;
mod dns_changes;
mod domains;
mod engines;
mod events;
mod greylist;
mod lookup_views;
mod permissions;
mod rules;
mod sent;
mod sign_up;
mod stats;
mod stats_recount;
mod statuses;
mod tables;
mod tokens;
mod webhooks;
