//! The pages of the console, on a real server.

mod account;
mod aliases;
mod assets;
mod domains;
mod drafts;
mod headers;
mod lockouts;
mod log_in;
mod mail;
mod messages;
mod overview;
mod permissions;
mod proof;
mod publishing;
mod queue;
mod rights;
mod rules;
mod sessions;
mod statistics;
mod support;
mod system;
mod tokens;
mod users;
mod webhooks;
mod write;
