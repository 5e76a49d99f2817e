//! The API as its clients see it: one file per operation, and some for rules that apply to all of them.

mod support;

mod aliases;
mod auth;
mod bodies;
mod docs;
mod domains;
mod errors;
mod events;
mod health;
mod hosted;
mod https;
mod limits;
mod mail;
mod mailbox;
mod metrics;
mod openapi;
mod permission_table;
mod permissions;
mod proxied;
mod queue;
mod requests;
mod serve;
mod stats;
mod stories;
mod tokens;
mod users;
mod webhooks;
