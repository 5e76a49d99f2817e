//! The pages: one file for each area.

pub(crate) mod account;
pub(crate) mod aliases;
pub(crate) mod domains;
pub(crate) mod events;
pub(crate) mod lockouts;
pub(crate) mod log_in;
pub(crate) mod mail;
pub(crate) mod messages;
pub(crate) mod overview;
pub(crate) mod permissions;
mod preferences;
pub(crate) mod publishing;
pub(crate) mod queue;
mod rule_form;
pub(crate) mod rules;
mod secret;
mod sessions;
pub(crate) mod statistics;
mod stored_draft;
pub(crate) mod system;
pub(crate) mod tokens;
pub(crate) mod users;
pub(crate) mod webhooks;
pub(crate) mod write;
